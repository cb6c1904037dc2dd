"""Proof of a grid: what its spec calls for is run, judged, and written up."""
