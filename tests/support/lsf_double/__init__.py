"""A double of IBM Spectrum LSF for tests: its commands, as IBM documents them, on this machine.

It keeps state, runs jobs for real, and refuses what LSF refuses: unknown options and fields, lists and
conditions that are malformed, queues, hosts and jobs that are not there. What it does not know it refuses,
too. It is written from the documents alone: that LSF itself does the same was never tried. Of a job it ends
the process group, and nothing that has left it, as an LSF without process tracking.
"""
