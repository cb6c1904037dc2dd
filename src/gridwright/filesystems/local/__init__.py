"""Local file systems: what they bring into a prediction, and the arrays and disks that they lie on."""

from gridwright.filesystems.local.rates import contribute

__all__ = ["contribute"]
