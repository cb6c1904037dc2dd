"""Verbs that watch a grid as it runs."""
