"""Moves a tree of another file system into a library: again and again what changed, and once for all."""
