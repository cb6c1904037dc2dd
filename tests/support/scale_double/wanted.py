"""Clusters that tests want, whose disks are files."""

from __future__ import annotations

from pathlib import Path

from gridwright.filesystems.scale.administration.wanted import ScaleCluster
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk

GIB = 2**30


def wanted_of(place: Path, pairs: int, clients: int, disks: int, replicas: int = 1) -> ScaleCluster:
    """A cluster whose devices are files of a directory."""
    nsd = {"instance": "BM.Standard2.52", "count": 2 * pairs, "disks": {"type": "balanced"}}
    spec = ScaleFileSystem.model_validate(
        {"type": "scale", "path": "/gpfs/lake", "nsd": nsd, "replicas": replicas}
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
    for each in shared:
        if not Path(each.device).exists():
            Path(each.device).write_text("empty")
    return scale_cluster("grid", "lake", spec, servers + nodes, shared)
