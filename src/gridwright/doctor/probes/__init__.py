"""Trials of shared file systems by pairs of nodes."""
