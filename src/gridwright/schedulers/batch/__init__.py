"""What schedulers for the batch systems of sites have in common: a record of jobs, their files and ends.

A kind that has such a batch system brings a `BatchSystem`: it hands jobs in, and tells how they stand. All
that `Scheduler` promises beyond that is kept here, the same for each.
"""
