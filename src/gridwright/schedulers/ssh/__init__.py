"""A grid without a scheduler: Gridwright starts its own work on each node through ssh."""
