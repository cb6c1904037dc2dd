"""Logs of real SAS jobs, read as launches of the workload."""
