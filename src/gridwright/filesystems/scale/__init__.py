"""IBM Spectrum Scale: what it brings into a prediction, and what its own health monitor says of it."""

from gridwright.filesystems.scale.rates import contribute

__all__ = ["contribute"]
