"""Clusters that tests want, whose disks are files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem

GIB = 2**30


def wanted_of(
    place: Path,
    pairs: int,
    clients: int,
    disks: int,
    replicas: int = 1,
    *,
    pools: Mapping[str, int] | None = None,
    **fields: Any,
) -> ScaleCluster:
    """A cluster whose devices are files of a directory; `pools` has numbers of disks of each server."""
    nsd = {"instance": "BM.Standard2.52", "count": 2 * pairs, "disks": {"type": "balanced"}}
    given = {name: {"disks": {"type": "balanced", "count": count}} for name, count in (pools or {}).items()}
    spec = ScaleFileSystem.model_validate(
        {
            "type": "scale",
            "path": "/gpfs/lake",
            "nsd": nsd,
            "replicas": replicas,
            "pools": given or None,
            **fields,
        }
    )
    servers = [
        ClusterMachine(
            name=f"nsd{number}", address=f"10.0.0.{number}", is_server=True, pair=(number + 1) // 2,
            memory_bytes=64 * GIB, nic_bytes_per_s=3e9,
        )
        for number in range(1, 2 * pairs + 1)
    ]  # fmt: skip
    nodes = [
        ClusterMachine(name=f"node{number}", address=f"10.0.1.{number}", is_server=False, memory_bytes=GIB)
        for number in range(1, clients + 1)
    ]
    shared = [
        PairDisk(volume=f"v{pair}-{index}", device=str(place / f"disk{pair}-{index}"), pair=pair, index=index)
        for pair in range(1, pairs + 1)
        for index in range(2 * disks)
    ]
    shared += [
        PairDisk(
            volume=f"v{pair}-{pool}-{index}", device=str(place / f"disk{pair}-{pool}-{index}"), pair=pair,
            index=index, pool=pool, label=f"p{pair}_{pool}_v{index + 1:02d}",
        )
        for pair in range(1, pairs + 1)
        for pool, count in (pools or {}).items()
        for index in range(2 * count)
    ]  # fmt: skip
    for each in shared:
        if not Path(each.device).exists():
            Path(each.device).write_text("empty")
    return scale_cluster("grid", "lake", spec, servers + nodes, shared)
