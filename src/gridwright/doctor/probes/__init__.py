"""Nodes that try the file systems they share, two at a time."""
