"""Verbs for work on a grid: jobs."""
