"""Machines and disks of a site as a cluster has them, out of the pairs that the spec names. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.shared_disks import ClusterMachine, NamedServers, PairDisk


def named_servers(filesystem: ScaleFileSystem) -> NamedServers | None:
    """Pairs in their order, and the witness as a server of its own; None where it makes no cluster.

    Of clients alone, where another cluster has the disks and its public key is at hand, there are no servers.
    """
    if filesystem.remote is not None and filesystem.remote.key:
        return NamedServers(machines=(), disks=())
    if not filesystem.pairs:
        return None
    return NamedServers(machines=tuple(_machines(filesystem)), disks=tuple(_disks(filesystem)))


def _machines(filesystem: ScaleFileSystem) -> Iterator[ClusterMachine]:
    pairs = filesystem.pairs or []
    for number, pair in enumerate(pairs, start=1):
        for server in pair.servers:
            yield ClusterMachine(
                name=server,
                address=server,
                is_server=True,
                pair=number,
                # Machines of one hall fail together.
                fault_domain=pair.site,
                site=pair.site,
                memory_bytes=None if pair.memory is None else int(pair.memory),
                nic_bytes_per_s=None if pair.network is None else pair.network.bytes_per_s,
            )
    if filesystem.witness is not None:
        name, apart = filesystem.witness.server, max(each.site for each in pairs) + 1
        yield ClusterMachine(
            name=name,
            address=name,
            is_server=True,
            pair=len(pairs) + 1,
            fault_domain=apart,
            site=apart,
            is_witness=True,
        )
    if filesystem.nfs is not None:
        yield from _protocol_servers(filesystem, filesystem.nfs.servers)


def _protocol_servers(filesystem: ScaleFileSystem, names: Sequence[str]) -> Iterator[ClusterMachine]:
    """Members of the cluster that serve NFS and no disks; those that do both are members already."""
    known = {name for pair in filesystem.pairs or () for name in pair.servers}
    if filesystem.witness is not None:
        known.add(filesystem.witness.server)
    for name in names:
        if name not in known:
            yield ClusterMachine(name=name, address=name, is_server=False, runs_jobs=False)


def _disks(filesystem: ScaleFileSystem) -> Iterator[PairDisk]:
    pairs = filesystem.pairs or []
    for number, pair in enumerate(pairs, start=1):
        for index, device in enumerate(pair.disks):
            yield _disk(device, number, index)
        for pool, devices in (pair.pools or {}).items():
            for index, device in enumerate(devices):
                yield _disk(device, number, index, pool=pool)
    if filesystem.witness is not None:
        yield _disk(filesystem.witness.disk, len(pairs) + 1, 0, is_descriptor_only=True)


def _disk(
    device: str, pair: int, index: int, *, pool: str = "", is_descriptor_only: bool = False
) -> PairDisk:
    return PairDisk(
        volume=device.rpartition("/")[2],
        device=device,
        pair=pair,
        index=index,
        pool=pool,
        is_descriptor_only=is_descriptor_only,
        # Of its own name: a disk or pair that is written before others must not give them new names.
        label=hashlib.sha256(device.encode()).hexdigest()[:12],
    )
