"""The workload on several nodes: its launches are jobs of the grid's scheduler."""
