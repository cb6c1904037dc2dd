"""The data of the workload: made from a seed, byte for byte the same on any machine."""
