"""The scheduler built into Gridwright: jobs of one machine, without a daemon, over a SQLite store."""
