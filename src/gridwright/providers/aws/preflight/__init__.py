"""Looks, before `up` makes anything, at what it would fail of: quotas, zone, images, rights, the key."""
