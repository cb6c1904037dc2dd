"""Processes of launches: the functions that jobs of the local scheduler are watched with."""

from gridwright.grid.process_tree import (
    adopt_orphans,
    children,
    descendants,
    die_with_parent,
    kill_all,
    resident_bytes,
    run_delay_ns,
)

__all__ = [
    "adopt_orphans",
    "children",
    "descendants",
    "die_with_parent",
    "kill_all",
    "resident_bytes",
    "run_delay_ns",
]
