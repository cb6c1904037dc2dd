"""Lustre: what it brings into a prediction, and how it is: targets, space, layouts, counters, health.

Nothing here asks a command that hangs or lies (docs/filesystems.md): everything is read with
`lctl get_param`, name by name, in bounded time.
"""

from gridwright.filesystems.lustre.rates import contribute

__all__ = ["contribute"]
