"""No scheduler: work of Gridwright's own is started on each node through ssh."""
