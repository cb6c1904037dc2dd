"""Machines of a file system whose servers share disks, and these disks, as a provider makes both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMachine:
    """A machine as its provider knows it, before it is a node of a cluster."""

    name: str
    address: str
    is_server: bool
    pair: int = 0
    """The pair of a server, from 1 on."""
    fault_domain: int = 0
    """Machines of one fault domain fail together; servers of a pair are in two."""
    site: int = 0
    """The availability domain or the hall; two where replicas are apart."""
    memory_bytes: int | None = None
    nic_bytes_per_s: float | None = None
    runs_jobs: bool = True
    """Whether a client is there for jobs; one that is not may be small, and has no settings of nodes."""
    is_witness: bool = False
    """Whether it is a server that has no data: it only decides between two sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDisk:
    """A disk that both servers of a pair reach."""

    volume: str
    """The name of the cloud's volume, or what the site calls the disk; it stays when machines go."""
    device: str
    pair: int
    index: int
    """From 0 on, within the pair and its pool."""
    is_descriptor_only: bool = False
    """Whether it holds no data, and only breaks a tie between two sites."""
    pool: str = ""
    """Which pool of disks of its file system it belongs to; empty for the one that is always there."""
    label: str = ""
    """What tells it from other disks of its file system in any order; empty: its pair and index do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServers:
    """Servers that a site has already, as the spec names them, with the disks that their pairs share.

    None of both where the grid's nodes are a cluster of clients alone.
    """

    machines: Sequence[ClusterMachine]
    disks: Sequence[PairDisk]
