"""The jobs of a workload on several nodes, as each runs on its node."""
