"""Slurm as a kind of scheduler: writes its configuration, and runs jobs through its commands."""
