"""The scheduler built into Gridwright: it runs jobs on one machine, without a daemon, from a SQLite store."""
