"""Watching a grid as it runs: what nodes, file systems and jobs do now, and what binds."""
