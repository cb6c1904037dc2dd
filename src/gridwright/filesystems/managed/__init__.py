"""Managed file systems of any cloud: named offers of the catalogue, or figures of one's own."""
