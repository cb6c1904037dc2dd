"""Disks of the node itself, or volumes attached to it, as a file system."""
