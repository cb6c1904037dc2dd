"""What a scheduler wrote down of jobs that have ended: Slurm's sacct, LSF's lsb.acct and bacct."""
