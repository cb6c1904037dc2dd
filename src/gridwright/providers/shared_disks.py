"""File systems whose servers are pairs with volumes that both attach: what every cloud has alike.

Machines, addresses and volumes are the provider's. Pure, from the spec alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import ClusterMachine, PairDisk, SharedDiskCluster
from gridwright.filesystems.provided import SharedDiskServers, requested
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What a provider has of one cluster: members, its servers first, and the disks that pairs share."""

    machines: Sequence[ClusterMachine]
    disks: Sequence[PairDisk]


def shared_disk_file_systems(spec: GridSpec) -> dict[str, SharedDiskServers]:
    """Those whose servers are pairs with shared volumes, and those that nodes are clients of, by name."""
    return requested(spec, SharedDiskServers)


def server_pairs(first: str, count: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """The number of each pair, from 1 on, with its servers: 1 and 2 are a pair, 3 and 4 the next."""
    for pair in range(1, count // 2 + 1):
        yield pair, (f"{first}{2 * pair - 1}", f"{first}{2 * pair}")


def cluster_documents(spec: GridSpec, parts: Mapping[str, ClusterParts]) -> dict[str, Mapping[str, Any]]:
    """The cluster of each file system that is one, by the file system's name."""
    return {
        name: kind.cluster_document(spec.name, name, each, parts[name].machines, parts[name].disks)
        for name, each in spec.filesystems.items()
        if name in parts and isinstance(kind := kind_of(each), SharedDiskCluster)
    }


def playbook_clusters(spec: GridSpec, parts: Mapping[str, ClusterParts]) -> list[dict[str, object]]:
    """What the role that makes clusters is told: those that have servers, the first of which makes it."""
    return [
        {"name": name, "first": parts[name].machines[0].name, "document": document}
        for name, document in cluster_documents(spec, parts).items()
        if any(each.is_server for each in parts[name].machines)
    ]
