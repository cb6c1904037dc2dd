"""Rules of a Scale file system: who serves it, and what its fields say together, each with its reason.

Most are those of facts oci-scale (2026-11-22), "Rules a generator must hold", by their numbers. What no spec
can break (6 and 7: maxMBpS and names of NSDs) `cluster` holds by itself. Storage pools and NFS have theirs in
`pool_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gridwright.filesystems.scale.fields import bucket_problems, package_problems
from gridwright.filesystems.scale.model import BLOCK_SIZE
from gridwright.filesystems.scale.pool_rules import MOST_ATTACHED, nfs_problems, pool_problems
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.spec.provider import ProviderKind
from gridwright.units import Bytes, UnitError
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

KIB = 2**10
BLOCK_SIZES = tuple(Bytes(each * KIB) for each in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384))
"""Those that a file system can have (IBM Storage Scale, mmcrfs command)."""
LARGEST_SHARE = 0.5
"""Of a node's memory: the rest is for the kernel, min_free_kbytes and what runs beside the daemon."""

_Problem = tuple[tuple[str, ...], FieldError]


def scale_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    yield from _owner_problems(fields)
    yield from pair_problems(fields)
    yield from package_problems(fields)
    yield from bucket_problems(fields)
    yield from nfs_problems(fields)
    yield from pool_problems(fields)
    servers = fields.get("nsd")
    if isinstance(servers, Mapping):
        yield from _pairs(fields, servers)
        yield from _disks(servers)
    yield from _block_size("block_size", fields.get("block_size", str(BLOCK_SIZE)))
    yield from _block_size("metadata_block_size", fields.get("metadata_block_size"))
    yield from _page_pool(fields)


def _pairs(fields: Mapping[str, Any], servers: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 1, 2 and 3: servers are pairs, and copies of data are at different pairs."""
    count = servers.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        return
    if count % 2:
        yield (
            ("nsd", "count"),
            FieldError(
                f"{count} NSD server{'s are' if count > 1 else ' is'} no pairs: a disk has a first server, "
                "and a second one that goes on with it when the first dies",
                f"write {count + 1}",
            ),
        )
    if fields.get("replicas") == 2 and count < 4:
        yield (
            ("replicas",),
            FieldError(
                f"two copies need two pairs of servers, each a failure group of its own, and there are "
                f"{count} servers",
                "write replicas: 1, or nsd: {count: 4}",
            ),
        )


def _disks(servers: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 8 and 9: both of a pair attach all its volumes, which outlive them."""
    disks = servers.get("disks")
    if not isinstance(disks, Mapping):
        return
    if disks.get("type") == INSTANCE_STORE:
        yield (
            ("nsd", "disks", "type"),
            FieldError(
                "disks of the machine itself are lost with it, and its pair does not reach them",
                "write a type of block volume, such as balanced on OCI and io2 on AWS",
            ),
        )
    count = disks.get("count")
    if isinstance(count, int) and 2 * count > MOST_ATTACHED:
        yield (
            ("nsd", "disks", "count"),
            FieldError(
                f"a server attaches the disks of its pair, 2 x {count}, and {MOST_ATTACHED} are the most",
                f"write {MOST_ATTACHED // 2}, or more servers",
            ),
        )


def _block_size(field: str, given: Any) -> Iterator[_Problem]:  # noqa: ANN401
    """Rule 4: a block size that maxblocksize, 16 MiB, lets in; it never changes later."""
    if given is None:
        return
    try:
        size = Bytes.parse(given)
    except UnitError:
        return
    if size not in BLOCK_SIZES:
        near = min(BLOCK_SIZES, key=lambda each: (abs(each - size), -each))
        yield (
            (field,),
            FieldError(
                f"{size} is no block size of Scale, whose are powers of two from {BLOCK_SIZES[0]} to "
                f"{BLOCK_SIZES[-1]}; a file system keeps its own for good",
                f"write {near}",
            ),
        )


def _page_pool(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rule 5: pinned memory that the node has beside what its kernel keeps free."""
    given = fields.get("pagepool")
    if not isinstance(given, Mapping):
        return
    for name in ("servers", "clients"):
        share = given.get(name)
        if isinstance(share, int | float) and not isinstance(share, bool) and share > LARGEST_SHARE:
            yield (
                ("pagepool", name),
                FieldError(
                    f"a page pool of {share:g} of the memory is pinned, and leaves too little for the "
                    "kernel and for jobs",
                    f"write {LARGEST_SHARE:g}, which is the most",
                ),
            )


_OWNERS = ("nsd", "pairs", "remote")


def _owner_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """One of nsd, pairs and remote says who has the disks."""
    given = [name for name in _OWNERS if fields.get(name) is not None]
    if not given:
        yield (
            (),
            FieldError(
                "a Scale file system has none of nsd, pairs and remote, so nobody has its disks",
                "describe its servers under nsd (a cloud's) or pairs (a site's), or the cluster that has it: "
                "remote: {cluster: storage.example.com, contacts: [nsd1.example.com], filesystem: fs1}",
            ),
        )
    if given[:1] != ["remote"] and "remote" in given:
        yield (
            ("remote",),
            FieldError(
                f"remote says that another cluster has it, and {given[0]} describes servers of one's own",
                "remove one of them",
            ),
        )
    if {"nsd", "pairs"} <= set(given):
        yield (
            ("pairs",),
            FieldError(
                "nsd describes servers that a cloud makes, and pairs names a site's own", "remove one of them"
            ),
        )


def provider_problems(
    fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
) -> Iterator[_Problem]:
    """Servers that the grid's provider cannot make, or that are not its to name."""
    yield from _key(fields, grid, provider)
    if fields.get("nsd") is not None and provider.shared_volumes is None:
        yield ("nsd",), FieldError(*_unshared(provider))
    elif isinstance(fields.get("nsd"), Mapping):
        yield from _volume_type(fields["nsd"], provider)
    if fields.get("pairs") is None:
        return
    if not provider.names_servers:
        yield (
            ("pairs",),
            FieldError(
                f"pairs names machines of a site, and provider {provider.name} has none",
                "write provider: site, or nsd: with what is to be made",
            ),
        )
        return
    yield from _members(fields, grid, "pairs")


def _key(fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """The public key of another cluster, with which the grid's nodes are made a cluster of clients."""
    remote = fields.get("remote")
    key = remote.get("key") if isinstance(remote, Mapping) else None
    if not isinstance(key, str):
        return
    if "PRIVATE KEY" in key:
        yield (
            ("remote", "key"),
            FieldError("a private key is nobody else's", "write the public one, id_rsa.pub"),
        )
    if not provider.names_servers:
        yield (
            ("remote", "key"),
            FieldError(
                f"provider {provider.name} does not make its nodes a cluster of clients",
                "leave key out, and exchange keys by hand: mmauth, mmremotecluster, mmremotefs",
            ),
        )
        return
    yield from _members(fields, grid, "remote")


def _unshared(provider: ProviderKind) -> tuple[str, str]:
    """Why servers cannot be pairs there, and what to write."""
    if provider.names_servers:
        return (
            f"provider {provider.name} makes no servers, so that there are none of an instance type",
            "name the site's own: pairs: [{servers: [nsd1, nsd2], disks: [/dev/disk/by-id/...]}]",
        )
    return (
        f"NSD servers are pairs with volumes that both attach, which provider {provider.name} does not make",
        "write provider: aws or oci, or provider: site with pairs:; or another type of file system",
    )


def _volume_type(servers: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """Rule 8: both of a pair attach its volumes, which not every type of a cloud lets them do."""
    disks, types = servers.get("disks"), provider.shared_volumes.types if provider.shared_volumes else ()
    given = disks.get("type") if isinstance(disks, Mapping) else None
    if types and isinstance(given, str) and given not in (INSTANCE_STORE, *types):
        yield (
            ("nsd", "disks", "type"),
            FieldError(
                f"both of a pair of servers attach its volumes, and provider {provider.name} attaches "
                f"{show(given)} to one machine alone",
                f"write {' or '.join(types)}",
            ),
        )


def _members(fields: Mapping[str, Any], grid: Mapping[str, Any], owner: str) -> Iterator[_Problem]:
    """Nodes are members of the cluster, by name; and servers of files run no jobs."""
    groups = grid.get("nodes")
    named: dict[str, str] = {}
    for group, each in groups.items() if isinstance(groups, Mapping) else ():
        hosts = each.get("hosts") if isinstance(each, Mapping) else None
        if hosts is None:
            yield (
                (owner,),
                FieldError(
                    f"nodes are members of the cluster by name, and nobody says which those of {group} are",
                    f"write hosts under nodes.{group}, such as hosts: c[001-016]",
                ),
            )
        elif isinstance(hosts, str):
            named |= dict.fromkeys(_expanded(hosts), str(group))
    for path, server in (*_servers(fields), *_protocol_servers(fields)):
        if server in named:
            yield (
                path,
                FieldError(
                    f"{server} runs jobs, as one of {named[server]}: their memory and network are what it "
                    "serves with, and a job that takes all of it stops the file system",
                    f"take it out of nodes.{named[server]}.hosts, or name another server",
                ),
            )


def _expanded(hosts: str) -> Sequence[str]:
    from gridwright.spec.hosts import expand_hosts

    try:
        return expand_hosts(hosts.strip())
    except FieldError:
        return ()


def _servers(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every server with its place below the section."""
    for number, pair in _listed(fields.get("pairs")):
        for index, server in _listed(pair.get("servers") if isinstance(pair, Mapping) else None):
            if isinstance(server, str):
                yield ("pairs", number, "servers", index), server
    witness = fields.get("witness")
    if isinstance(witness, Mapping) and isinstance(witness.get("server"), str):
        yield ("witness", "server"), witness["server"]


def _protocol_servers(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Those that serve NFS, which may be servers of disks, too."""
    nfs = fields.get("nfs")
    for number, server in _listed(nfs.get("servers") if isinstance(nfs, Mapping) else None):
        if isinstance(server, str):
            yield ("nfs", "servers", number), server


def _disks_of_pairs(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every disk of a pair with its place; that of a witness is its own machine's."""
    for number, pair in _listed(fields.get("pairs")):
        if not isinstance(pair, Mapping):
            continue
        pools = pair.get("pools")
        lists: list[tuple[tuple[str, ...], Any]] = [(("disks",), pair.get("disks"))]
        lists += (
            [(("pools", str(name)), pool) for name, pool in pools.items()]
            if isinstance(pools, Mapping)
            else []
        )
        for place, disks in lists:
            for index, disk in _listed(disks):
                if isinstance(disk, str):
                    yield ("pairs", number, *place, index), disk


def _listed(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """A list with the places of its elements."""
    return [(str(index), each) for index, each in enumerate(value)] if isinstance(value, list) else []


def pair_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 1 to 3 where the servers are named: each once, and copies in two places that fail apart."""
    yield from _once(fields)
    pairs = [each for _, each in _listed(fields.get("pairs")) if isinstance(each, Mapping)]
    if not pairs:
        if fields.get("witness") is not None:
            yield (
                ("witness",),
                FieldError(
                    "a witness decides between pairs of two sites, and no pairs are named", _NO_WITNESS
                ),
            )
        return
    sites = {pair.get("site", 1) for pair in pairs if isinstance(pair.get("site", 1), int)}
    copies, has_witness = fields.get("replicas") == 2, fields.get("witness") is not None
    if copies and len(pairs) < 2:
        yield (
            ("replicas",),
            FieldError(
                "two copies need two pairs of servers, each a failure group of its own, and there is one",
                "write replicas: 1, or name a second pair",
            ),
        )
    elif copies and len(sites) == 2 and not has_witness:
        yield (
            ("replicas",),
            FieldError(
                "copies are at two sites, and neither of them can tell whether the other one is dead: with "
                "one of them two of three descriptors are lost, and the file system stops",
                "add witness: {server: tie1, disk: /dev/disk/by-id/...} with a machine of a third site",
            ),
        )
    elif has_witness and not (copies and len(sites) == 2):
        yield (
            ("witness",),
            FieldError(
                "a witness decides between two sites that each have a copy of everything, and here "
                + (f"pairs are of {len(sites)} site{'s' * (len(sites) != 1)}" if copies else "is one copy"),
                _NO_WITNESS
                if copies
                else "write replicas: 2 with pairs of site: 1 and site: 2, or remove it",
            ),
        )


_NO_WITNESS = "remove the line, or name pairs of site: 1 and site: 2"


def _once(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """A pair is two servers; a server is of one pair, and a disk of one pair too."""
    for number, pair in _listed(fields.get("pairs")):
        servers = pair.get("servers") if isinstance(pair, Mapping) else None
        if isinstance(servers, list) and len(servers) != 2:
            yield (
                ("pairs", number, "servers"),
                FieldError(
                    f"{len(servers)} server{'s are' if len(servers) != 1 else ' is'} no pair: a disk has a "
                    "first server, and a second one that goes on with it when the first dies",
                    "name two, or make more pairs of them",
                ),
            )
    seen: dict[str, tuple[str, ...]] = {}
    for path, server in _servers(fields):
        if server in seen:
            yield (
                path,
                FieldError(
                    f"{show(server)} is named twice: a pair is two machines, and no machine is of two pairs",
                    "name another one",
                ),
            )
        seen.setdefault(server, path)
    disks: set[str] = set()
    for path, disk in _disks_of_pairs(fields):
        if disk in disks:
            yield path, FieldError(f"{disk} is named twice, and can be one NSD", "name each disk once")
        disks.add(disk)
