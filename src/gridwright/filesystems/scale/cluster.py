"""From a spec to the cluster that it wants: nodes, quorum, disks with their servers, settings. Pure.

The rules are those of facts oci-scale (2026-11-22), "Rules a generator must hold", by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gridwright.filesystems.scale.administration.desired import (
    NFS_ACLS,
    SYSTEM_POOL,
    DesiredBucket,
    DesiredExport,
    DesiredFileSystem,
    DesiredNfs,
    DesiredNode,
    DesiredNsd,
    DesiredRemote,
    DesiredSetting,
    ScaleCluster,
    Usage,
)
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.placement import placement_rules
from gridwright.filesystems.scale.ports import FIRST_COMMAND, LAST_COMMAND
from gridwright.filesystems.scale.quorum import quorum_names
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk

SERVERS_CLASS, CLIENTS_CLASS, WITNESS_CLASS = "gridServers", "gridClients", "gridWitness"
"""Node classes. Scale has nsdNodes and clientNodes itself, and refuses names that end so (mmcrnodeclass)."""
LARGEST_BLOCK = 16 * 2**20
"""maxblocksize (facts 003), and the largest that Scale knows (mmcrfs command)."""
MIB, GIB = 2**20, 2**30
LEAST_POOL, MOST_SERVER_POOL, MOST_CLIENT_POOL = GIB, 128 * GIB, 64 * GIB
"""The page pool: those of facts 003 are the most."""


def scale_cluster(
    grid: str,
    name: str,
    filesystem: ScaleFileSystem,
    machines: Sequence[ClusterMachine],
    disks: Sequence[PairDisk],
) -> ScaleCluster:
    """The cluster of file system `name` of a grid: the same arguments give the same cluster."""
    cluster = ScaleCluster(
        name=f"{grid}-{name}"[:63].rstrip("-"),
        nodes=_nodes(machines, filesystem),
        node_classes=_classes(machines),
        settings=_settings(filesystem, machines),
        callhome={} if filesystem.callhome is None else filesystem.callhome.model_dump(),
    )
    if filesystem.remote is not None:
        remote = filesystem.remote
        mounted = DesiredRemote(
            cluster=remote.cluster,
            contacts=tuple(remote.contacts),
            filesystem=remote.filesystem,
            mount_point=str(filesystem.path),
            device=device_name(name),
            key=remote.key or "",
        )
        return replace(cluster, remotes=(mounted,))
    nsds = _nsds(grid, name, filesystem, machines, disks)
    holding = tuple(nsd.name for nsd in nsds if nsd.usage != "descOnly")
    wanted = DesiredFileSystem(
        name=device_name(name),
        mount_point=str(filesystem.path),
        block_size=int(filesystem.block_size),
        data_replicas=filesystem.replicas,
        metadata_replicas=filesystem.replicas,
        nsds=tuple(nsd.name for nsd in nsds),
        metadata_block_size=int(filesystem.metadata_block_size or 0),
        rules=placement_rules(filesystem),
        acls=NFS_ACLS if filesystem.nfs is not None else "",
    )
    # A disk of which both quorum nodes are servers is seen by both (rule 1).
    ties = holding[: 3 if len(holding) >= 3 else 1] if len(cluster.quorum) == 2 else ()
    buckets = tuple(_buckets(wanted.name, filesystem))
    nfs = _nfs(filesystem)
    return replace(cluster, nsds=nsds, filesystems=(wanted,), tiebreakers=ties, buckets=buckets, nfs=nfs)


def _nfs(filesystem: ScaleFileSystem) -> DesiredNfs | None:
    """CES with its shared root in the file system itself (mmchconfig command, cesSharedRoot)."""
    given = filesystem.nfs
    if given is None:
        return None
    return DesiredNfs(
        root=f"{filesystem.path}/{given.directory}",
        servers=tuple(given.servers),
        addresses=tuple(given.addresses),
        exports=tuple(
            DesiredExport(export.path, tuple(export.clients), export.access, export.squash)
            for export in given.exports
        ),
    )


def _buckets(device: str, filesystem: ScaleFileSystem) -> Iterator[DesiredBucket]:
    for bucket in filesystem.buckets or ():
        yield DesiredBucket(
            filesystem=device,
            fileset=bucket.directory,
            bucket=bucket.bucket,
            prefix=bucket.prefix or "",
            endpoint=bucket.endpoint,
            region=bucket.region or "",
            mode=bucket.mode,
            keys=bucket.keys,
        )


def device_name(name: str) -> str:
    """The name of a file system of Scale by that in the spec (mmcrfs command: letters, digits, - and _)."""
    return name.replace("-", "_")[:31]


def nsd_name(grid: str, filesystem: str, disk: PairDisk) -> str:
    """An NSD's name (rule 7): from grid, file system and volume, never from a name that may change.

    Names have letters, digits and underscores, and begin with a letter (mmcrnsd command).
    """
    own = disk.label or f"p{disk.pair}_v{disk.index + 1:02d}"
    return f"{grid}_{filesystem}_{own}".replace("-", "_")


def _nodes(machines: Sequence[ClusterMachine], filesystem: ScaleFileSystem) -> tuple[DesiredNode, ...]:
    quorum = set(quorum_names(machines, filesystem.replicas))
    exporting = filesystem.nfs.servers if filesystem.nfs is not None else ()
    return tuple(
        DesiredNode(
            name=machine.name,
            address=machine.address,
            is_server=machine.is_server,
            is_quorum=machine.name in quorum,
            # A manager has work of the whole file system: it is a server, as clients have jobs.
            is_manager=machine.is_server or machine.name in quorum,
            fault_domain=machine.fault_domain,
            memory_bytes=machine.memory_bytes,
            nic_bytes_per_s=machine.nic_bytes_per_s,
            is_protocol=machine.name in exporting,
        )
        for machine in machines
    )


def _classes(machines: Sequence[ClusterMachine]) -> Mapping[str, tuple[str, ...]]:
    found = {
        SERVERS_CLASS: tuple(
            machine.name for machine in machines if machine.is_server and not machine.is_witness
        ),
        WITNESS_CLASS: tuple(machine.name for machine in machines if machine.is_witness),
        CLIENTS_CLASS: tuple(
            machine.name for machine in machines if not machine.is_server and machine.runs_jobs
        ),
    }
    return {name: members for name, members in found.items() if members}


def _nsds(
    grid: str,
    name: str,
    filesystem: ScaleFileSystem,
    machines: Sequence[ClusterMachine],
    disks: Sequence[PairDisk],
) -> tuple[DesiredNsd, ...]:
    """Each disk with both servers of its pair, which take turns in being the first (rule 2)."""
    pairs: dict[int, list[str]] = {}
    for machine in machines:
        if machine.is_server:
            pairs.setdefault(machine.pair, []).append(machine.name)
    groups = failure_groups(filesystem.replicas, machines)
    made = []
    for disk in disks:
        servers = pairs[disk.pair]
        turn = disk.index % len(servers)
        made.append(
            DesiredNsd(
                name=nsd_name(grid, name, disk),
                device=disk.device,
                servers=(*servers[turn:], *servers[:turn]),
                usage=_usage(filesystem, disk),
                failure_group=groups[disk.pair],
                pool=disk.pool or SYSTEM_POOL,
                filesystem=device_name(name),
                volume=disk.volume,
            )
        )
    return tuple(made)


def _usage(filesystem: ScaleFileSystem, disk: PairDisk) -> Usage:
    """Metadata are in pool system alone (IBM Storage Scale, storage pools)."""
    if disk.is_descriptor_only:
        return "descOnly"
    if disk.pool:
        return "dataOnly"
    return "metadataOnly" if filesystem.metadata_only else "dataAndMetadata"


def failure_groups(replicas: int, machines: Sequence[ClusterMachine]) -> Mapping[int, int]:
    """The failure group of each pair's disks (rule 3).

    With one copy it is the pair; with two, what fails together: the site where servers are in two, else the
    pair, so that copies are never on one pair.
    """
    servers = [machine for machine in machines if machine.is_server]
    sites = {server.site for server in servers}
    by_site = replicas > 1 and len(sites) > 1
    return {server.pair: 100 + (server.site if by_site else server.pair) for server in servers}


def page_pool(memory_bytes: int, share: float, *, is_server: bool) -> int:
    """Bytes of the page pool, in whole MiB (rule 5; facts 003 for the most).

    Never above what is left beside the reserve of the kernel and the system, a quarter of memory.
    """
    most = MOST_SERVER_POOL if is_server else MOST_CLIENT_POOL
    wanted = max(min(int(memory_bytes * share), most), min(LEAST_POOL, memory_bytes // 4))
    return min(wanted, memory_bytes * 3 // 4) // MIB * MIB


def max_mbps(nic_bytes_per_s: float) -> int:
    """maxMBpS: about twice what the network cards of a node pass (rule 6), in MB/s."""
    return max(round(2 * nic_bytes_per_s / 1e6), 2048)


def _settings(filesystem: ScaleFileSystem, machines: Sequence[ClusterMachine]) -> tuple[DesiredSetting, ...]:
    everywhere = [
        # Before mmcrfs, and while the daemon is down everywhere (rule 4).
        DesiredSetting(parameter="maxblocksize", value="16M", needs_down=True, source="facts 003"),
        DesiredSetting(
            parameter="tscCmdPortRange",
            value=f"{FIRST_COMMAND}-{LAST_COMMAND}",
            source="facts 003, its range moved out of that of outgoing connections",
        ),
        DesiredSetting(parameter="numaMemoryInterleave", value="yes", source="facts 003"),
        DesiredSetting(parameter="workerThreads", value="1024", source="facts 003"),
    ]
    if any(machine.is_witness for machine in machines):
        # A descriptor that it cannot write is no reason for it to keep the file system.
        why = "IBM Storage Scale, synchronous mirroring with replication: the tiebreaker node"
        everywhere.append(DesiredSetting("unmountOnDiskFail", "yes", WITNESS_CLASS, source=why))
    return (
        *everywhere,
        *_of_class(filesystem, machines, is_server=True),
        *_of_class(filesystem, machines, is_server=False),
    )


def _of_class(
    filesystem: ScaleFileSystem, machines: Sequence[ClusterMachine], *, is_server: bool
) -> list[DesiredSetting]:
    """What nodes of one class have; the smallest of them decides, as a class has one value."""
    members = [
        machine
        for machine in machines
        if machine.is_server == is_server and not machine.is_witness and (machine.runs_jobs or is_server)
    ]
    if not members:
        return []
    node_class = SERVERS_CLASS if is_server else CLIENTS_CLASS
    found = []
    memory = [member.memory_bytes for member in members if member.memory_bytes is not None]
    if memory:
        share = filesystem.pagepool.servers if is_server else filesystem.pagepool.clients
        pool = page_pool(min(memory), share, is_server=is_server)
        cached = _files_cached(min(memory), is_server=is_server)
        found += [
            DesiredSetting(
                parameter="pagepool",
                value=f"{pool // MIB}M",
                node_class=node_class,
                source="facts 003, as a part of memory",
            ),
            DesiredSetting(
                parameter="maxFilesToCache",
                value=str(cached),
                node_class=node_class,
                source="facts 003, as a part of memory",
            ),
        ]
    rates = [member.nic_bytes_per_s for member in members if member.nic_bytes_per_s]
    if rates:
        found.append(
            DesiredSetting(
                parameter="maxMBpS",
                value=str(max_mbps(min(rates))),
                node_class=node_class,
                source="twice the network of a node (facts 003: 6250 at 25 Gbit/s)",
            )
        )
    return found


def _files_cached(memory_bytes: int, *, is_server: bool) -> int:
    """maxFilesToCache: some 10 KiB each; a sixteenth or a thirty-second of memory, as tuning.yaml has it."""
    each, most = (163_840, 5_000_000) if is_server else (327_680, 1_000_000)
    return min(max(memory_bytes // each, 10_000), most)
