"""Daemons and mounts on nodes: what a service is, and what all of them do alike."""
