"""Nodes of a lab, as kinds of file systems see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNodes:
    """Who serves a file system in a lab, and who mounts it."""

    servers: Sequence[str]
    """Storage nodes; the first one has what there is only one of."""
    clients: Sequence[str]
    all_nodes: Sequence[str]
    """Of the lab: users may have processes on each of them."""
    directory: str
    """Where a storage node keeps data."""
    keep_free: str
    """How much of a storage node's disk stays free, as `256MiB`."""
