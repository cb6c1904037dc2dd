"""Slurm: its configuration, and jobs through its commands."""
