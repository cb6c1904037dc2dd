"""From a spec to the cluster that it wants: machines, quorum, disks, settings, placement of files. Pure.

The rules are those of facts oci-scale (2026-11-22), "Rules a generator must hold", by their numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gridwright.errors import Finding
from gridwright.filesystems.kind import ClusterMachine, NamedServers, PairDisk
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
from gridwright.filesystems.scale.administration.order import OWN
from gridwright.filesystems.scale.fields import FIRST_COMMAND, LAST_COMMAND
from gridwright.filesystems.scale.model import ScaleFileSystem

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
        rules=_placement_rules(filesystem),
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


MOST_QUORUM = 7
"""Quorum nodes at most: each one more is one more that every lease has to reach."""


def quorum_names(machines: Sequence[ClusterMachine], replicas: int = 1) -> tuple[str, ...]:
    """The quorum nodes (rule 1): an odd number of servers up to seven, or two with tiebreaker disks.

    One server of each pair comes first. With two copies a whole pair may die and the cluster goes on, so no
    pair has two votes: where pairs are even in number, a node without disks has the odd one.
    """
    servers = [machine for machine in machines if machine.is_server]
    if replicas > 1 and len({server.site for server in servers}) > 1:
        return _of_sites(servers)
    clients = [machine for machine in machines if not machine.is_server]
    first = _first_of_pairs(servers)
    others = [server for server in servers if server not in first]
    if not servers:
        ordered = clients
    elif replicas > 1 and 1 < len(first) < MOST_QUORUM:
        ordered = first if len(first) % 2 else [*first, *_apart(first, clients or others)[:1]]
    else:
        ordered = [*first, *others]
    # Two without tiebreaker disks stop when either of them dies, and one alone only when that one does.
    if len(ordered) == 2 and servers:
        return tuple(machine.name for machine in ordered)
    return tuple(each.name for each in ordered[: _odd(min(len(ordered), MOST_QUORUM))])


def _of_sites(servers: Sequence[ClusterMachine]) -> tuple[str, ...]:
    """As many of each site, so that most votes are left without any of them; the witness has the odd one."""
    by_site: dict[int, list[str]] = {}
    for machine in _first_of_pairs([one for one in servers if not one.is_witness]):
        by_site.setdefault(machine.site, []).append(machine.name)
    witness = [server.name for server in servers if server.is_witness]
    room = (MOST_QUORUM - len(witness)) // len(by_site)
    each_has = min(room, *map(len, by_site.values()))
    if not witness and each_has % 2 == 0:
        each_has -= 1
    voters = [name for names in by_site.values() for name in names[: max(each_has, 1)]] + witness
    return tuple(voters[: _odd(min(len(voters), MOST_QUORUM))])


def _first_of_pairs(servers: Sequence[ClusterMachine]) -> list[ClusterMachine]:
    seen: dict[int, ClusterMachine] = {}
    for server in servers:
        seen.setdefault(server.pair, server)
    return list(seen.values())


def _apart(voters: Sequence[ClusterMachine], others: Sequence[ClusterMachine]) -> list[ClusterMachine]:
    """Others in the order in which one more should have a vote: of a fault domain without one first."""
    taken = {voter.fault_domain for voter in voters}
    return sorted(others, key=lambda each: each.fault_domain in taken)


def _odd(count: int) -> int:
    return count if count % 2 else max(count - 1, 0)


def _placement_rules(filesystem: ScaleFileSystem) -> tuple[str, ...]:
    """Rules of its policy, in their order; none where all disks are of one pool.

    A rule of migration has the percentages where the event lowDiskSpace begins and ends (IBM Storage Scale,
    using thresholds to migrate data between pools). The weight is how long nobody has read a file.
    """
    if not filesystem.pool_names:
        return ()
    migrations = (
        f"RULE '{OWN}full-{source}' MIGRATE FROM POOL '{source}' "
        f"THRESHOLD({migration.above},{migration.until}) "
        f"WEIGHT(CURRENT_TIMESTAMP - ACCESS_TIME) TO POOL '{migration.to}'"
        for source, migration in (filesystem.migrations or {}).items()
    )
    return (*migrations, f"RULE '{OWN}new-files' SET POOL '{filesystem.file_pool}'")


def filled_pools(filesystem: ScaleFileSystem) -> tuple[str, ...]:
    """Pools that get files by these rules: where new ones go, and where they move to from there."""
    found = [filesystem.file_pool]
    leads = filesystem.migrations or {}
    while found[-1] in leads and leads[found[-1]].to not in found:
        found.append(leads[found[-1]].to)
    return tuple(found)


def placement_findings(name: str, filesystem: ScaleFileSystem) -> Iterator[Finding]:
    """Pools that cost, and stay empty."""
    filled = filled_pools(filesystem)
    has_data = (() if filesystem.metadata_only else (SYSTEM_POOL,)) + filesystem.pool_names
    for pool in has_data if filesystem.pool_names else ():
        if pool in filled:
            continue
        # Metadata are in system all the same.
        what = "has metadata and no files" if pool == SYSTEM_POOL else "stays empty"
        yield Finding(
            "info",
            "scale-pool-unused",
            f"no rule puts files in pool {pool} of {name}: it {what}, unless the site has rules of its own, "
            "and predictions do not count its room",
            f"Write migrations: {{{filled[-1]}: {{to: {pool}}}}}, or default_pool: {pool}"
            + (", or metadata_only: true" if pool == SYSTEM_POOL else ""),
        )


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
