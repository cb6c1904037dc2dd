"""NFS: what it brings into a prediction, and how a mount of it is: options, counters, health."""

from gridwright.filesystems.nfs.rates import contribute

__all__ = ["contribute"]
