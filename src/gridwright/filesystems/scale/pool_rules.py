"""Rules of storage pools and of NFS by Scale's own CES, each with its reason and what to write instead.

What Scale takes is IBM's (IBM Storage Scale 5.2: storage pools, policies, mmcrfs command).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gridwright.errors import Finding
from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

MOST_ATTACHED = 32
"""Volumes that an instance attaches (facts oci-scale: device names from b to ag)."""
_OF_RULES = ("default_pool", "migrations")

_Problem = tuple[tuple[str, ...], FieldError]


def pool_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    yield from _owned(fields)
    yield from _disks(fields)
    names = _names(fields)
    alone = fields.get("metadata_only") is True
    if not names:
        yield from _without_pools(fields)
        return
    yield from _default(fields, names, alone=alone)
    yield from _migrations(fields, names, alone=alone)
    yield from _groups(fields)


def pools_of_provider(fields: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """Pools that its provider does not make."""
    shared = provider.shared_volumes
    if fields.get("pools") is None or shared is None or shared.has_pools:
        return
    yield (
        ("pools",),
        FieldError(
            f"provider {provider.name} makes the disks of nsd alone, which are pool {SYSTEM_POOL}",
            "remove the lines, or write provider: oci",
        ),
    )


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    return value if isinstance(value, Mapping) else {}


def _pairs(fields: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    given = fields.get("pairs")
    every = enumerate(given) if isinstance(given, list) else ()
    return [(str(number), each) for number, each in every if isinstance(each, Mapping)]


def _names(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Pools beside system, each once."""
    of_pairs = [name for _, pair in _pairs(fields) for name in _mapping(pair.get("pools"))]
    return tuple(dict.fromkeys(map(str, [*_mapping(fields.get("pools")), *of_pairs])))


def _owned(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Pools are of servers that are made, or of pairs that are named; system is always there."""
    pools = _mapping(fields.get("pools"))
    if pools and fields.get("pairs") is not None:
        yield (
            ("pools",),
            FieldError(
                "pools describes disks that a cloud makes, and pairs names a site's own",
                "name them under each pair: pools: {capacity: [/dev/disk/by-id/...]}",
            ),
        )
    if fields.get("remote") is not None:
        for field in ("pools", "metadata_only", "metadata_block_size", *_OF_RULES):
            if fields.get(field):
                yield (
                    (field,),
                    FieldError(
                        "pools are those of the cluster that has the file system, and that is another one",
                        "remove the lines, and ask its administrators",
                    ),
                )
    for path in ((), *(("pairs", number) for number, _ in _pairs(fields))):
        section = fields if not path else fields["pairs"][int(path[1])]
        if SYSTEM_POOL in _mapping(section.get("pools")):
            where = "nsd.disks" if not path else "disks of the pair"
            yield (
                (*path, "pools", SYSTEM_POOL),
                FieldError(
                    f"pool {SYSTEM_POOL} is there always, and its disks are {where}",
                    f"move them to {where}, or write another name, such as data",
                ),
            )


def _disks(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 8 and 9 over all pools: both of a pair attach all volumes, which outlive them."""
    counts = {SYSTEM_POOL: _count(_mapping(fields.get("nsd")).get("disks"))}
    for name, pool in _mapping(fields.get("pools")).items():
        disks = _mapping(_mapping(pool).get("disks"))
        if disks.get("type") == INSTANCE_STORE:
            yield (
                ("pools", str(name), "disks", "type"),
                FieldError(
                    "disks of the machine itself are lost with it, and its pair does not reach them",
                    "write a type of block volume, such as lower-cost",
                ),
            )
        before = sum(counts.values())
        counts[str(name)] = _count(disks)
        # That of system alone is a rule of its own.
        if before <= MOST_ATTACHED // 2 < sum(counts.values()):
            left = MOST_ATTACHED // 2 - before
            yield (
                ("pools", str(name), "disks"),
                FieldError(
                    "a server attaches the disks of its pair in all pools, "
                    f"2 x ({' + '.join(map(str, counts.values()))}), and {MOST_ATTACHED} are the most",
                    f"write count: {left}, or more servers"
                    if left
                    else "write fewer disks of another pool, or leave this one out",
                ),
            )


def _count(disks: Any) -> int:  # noqa: ANN401
    count = _mapping(disks).get("count", 1)
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1


def _without_pools(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What says where data go, and there is one place alone."""
    if fields.get("remote") is not None:
        return
    add = "pools: {data: {disks: {type: balanced, count: 4, size: 1 TiB}}}"
    if fields.get("pairs") is not None:
        add = "pools: {data: [/dev/disk/by-id/...]} under each pair"
    if fields.get("metadata_only") is True:
        yield (
            ("metadata_only",),
            FieldError(
                f"with metadata alone in pool {SYSTEM_POOL}, no pool has room for data",
                f"add {add}, or remove it",
            ),
        )
    if fields.get("metadata_block_size") is not None and fields.get("metadata_only") is not True:
        yield ("metadata_block_size",), FieldError(*_one_size(add))
    for field in _OF_RULES:
        given = fields.get(field)
        if given is not None and given != SYSTEM_POOL:
            yield (
                (field,),
                FieldError(
                    f"all files are in pool {SYSTEM_POOL}, which is the only one",
                    f"add {add}, or remove {field}",
                ),
            )


def _one_size(add: str = "") -> tuple[str, str]:
    more = f" and {add}" if add else ""
    return (
        f"pool {SYSTEM_POOL} has data, too, and all data of a file system have one block size",
        f"write metadata_only: true{more}, or remove it",
    )


def _default(fields: Mapping[str, Any], names: tuple[str, ...], *, alone: bool) -> Iterator[_Problem]:
    """New files go to a pool that is there and takes data."""
    given, named = fields.get("default_pool"), ", ".join(names)
    if fields.get("metadata_block_size") is not None and not alone:
        yield ("metadata_block_size",), FieldError(*_one_size())
    if given is None:
        if alone and len(names) > 1:
            yield (
                ("metadata_only",),
                FieldError(
                    f"new files go to one of {named}, and nobody says to which",
                    f"add default_pool: {names[0]}",
                ),
            )
        return
    if isinstance(given, str):
        yield from _exists(("default_pool",), given, names, alone=alone)


def _exists(
    path: tuple[str, ...], name: str, names: tuple[str, ...], *, alone: bool, without: str = ""
) -> Iterator[_Problem]:
    """A pool that files are in, or go to."""
    known = [each for each in ((() if alone else (SYSTEM_POOL,)) + names) if each != without]
    if name == SYSTEM_POOL and alone:
        yield (
            path,
            FieldError(
                f"pool {SYSTEM_POOL} has metadata alone, and takes no data",
                f"write {' or '.join(known) or 'another pool'}, or metadata_only: false",
            ),
        )
    elif name not in known and name != without:
        yield (
            path,
            FieldError(f"there is no pool {show(name)}", f"write {_nearest(name, known)}, or add its disks"),
        )


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1, 0.5)), known[-1] if known else SYSTEM_POOL)


def _migrations(fields: Mapping[str, Any], names: tuple[str, ...], *, alone: bool) -> Iterator[_Problem]:
    """Files go from one pool to another one, and not round in a circle."""
    given = _mapping(fields.get("migrations"))
    leads: dict[str, str] = {}
    for source, each in given.items():
        target = _mapping(each).get("to")
        yield from _exists(("migrations", str(source)), str(source), names, alone=alone)
        if isinstance(target, str):
            path = ("migrations", str(source), "to")
            yield from _exists(path, target, names, alone=alone, without=str(source))
            leads[str(source)] = target
            if circle := _circle(str(source), leads):
                yield (
                    path,
                    FieldError(
                        f"files would go round: {' to '.join(circle)}",
                        f"remove the line, so that pool {source} keeps what it has",
                    ),
                )
        above, until = _mapping(each).get("above", 85), _mapping(each).get("until", 70)
        if isinstance(above, int) and isinstance(until, int) and until >= above > 0:
            yield (
                ("migrations", str(source), "until"),
                FieldError(
                    f"files leave at {above} % in use until it is {until} %, which is no less",
                    f"write until: {max(above - 15, 0)}",
                ),
            )


def _circle(source: str, leads: Mapping[str, str]) -> list[str]:
    """The way from a pool back to itself; empty where there is none."""
    way = [source]
    while (target := leads.get(way[-1])) is not None:
        way.append(target)
        if target == source:
            return way
        if target in way[:-1]:
            return []
    return []


def _groups(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rule 3 for each pool: two copies are at two places that fail apart, in the same pool."""
    if fields.get("replicas") != 2 or fields.get("pairs") is None:
        return
    pairs = _pairs(fields)
    sites = {pair.get("site", 1) for _, pair in pairs}
    by_site = len(sites) > 1
    for name in _names(fields):
        having = [
            (pair.get("site", 1) if by_site else number)
            for number, pair in pairs
            if name in _mapping(pair.get("pools"))
        ]
        if len(set(having)) < 2 <= len(pairs):
            lacking = next(
                number for number, pair in pairs if (pair.get("site", 1) if by_site else number) not in having
            )
            where = f"site {dict(pairs)[lacking].get('site', 1)}" if by_site else "another pair"
            yield (
                ("pairs", lacking),
                FieldError(
                    f"both copies of a file are in its pool, and all disks of pool {name} fail together",
                    f"name disks of {where}, too: pools: {{{name}: [/dev/disk/by-id/...]}}",
                ),
            )


_AT = ("nfs",)
_NFS_PACKAGE = "gpfs.nfs-ganesha"
"""The server of NFS, and begins the name of the package with its access to Scale (IBM Storage Scale, packages
of protocols)."""


def nfs_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong within the section, as plain data; whatever has the wrong type is passed over."""
    given = fields.get("nfs")
    if not isinstance(given, Mapping):
        return
    if fields.get("remote") is not None:
        yield (
            _AT,
            FieldError(
                "the file system is another cluster's, and so would be what its protocol servers share",
                "remove nfs, and have that cluster's administrators export it",
            ),
        )
    for name in ("servers", "addresses"):
        yield from _once(given.get(name), (*_AT, name))
    yield from _exports(given, fields.get("path"))


def _once(given: Any, at: tuple[str, ...]) -> Iterator[_Problem]:  # noqa: ANN401
    seen: set[str] = set()
    for number, each in enumerate(given) if isinstance(given, list) else ():
        if isinstance(each, str) and each in seen:
            yield (*at, str(number)), FieldError(f"{show(each)} is named twice", "name each once")
        elif isinstance(each, str):
            seen.add(each)


def _exports(given: Mapping[str, Any], root: Any) -> Iterator[_Problem]:  # noqa: ANN401
    """Exports are below the mount point, each once, and leave out what only the servers may change."""
    exports = given.get("exports")
    shared = f"{root}/{given.get('directory', 'ces')}"
    seen: set[str] = set()
    for number, each in enumerate(exports) if isinstance(exports, list) else ():
        if not isinstance(each, Mapping):
            continue
        at = (*_AT, "exports", str(number))
        yield from _once(each.get("clients"), (*at, "clients"))
        path = each.get("path")
        if not isinstance(path, str) or not isinstance(root, str):
            continue
        if path in seen:
            yield (*at, "path"), FieldError(f"{path} is exported twice", "name all its clients in one export")
        seen.add(path)
        if (path != root and not path.startswith(f"{root}/")) or ".." in path.split("/"):
            near = f"{root}/{path.rpartition('/')[2].strip('.') or 'results'}"
            yield (
                (*at, "path"),
                FieldError(f"{path} is not in this file system, which is at {root}", f"write {near}"),
            )
        elif f"{shared}/".startswith(f"{path}/") or path.startswith(f"{shared}/"):
            yield (
                (*at, "path"),
                FieldError(
                    f"{path} has {shared}, where protocol servers keep their own state: a client that writes "
                    "there breaks them",
                    f"export directories beside it, such as {root}/results",
                ),
            )


def nfs_of_provider(
    fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
) -> Iterator[_Problem]:
    """Where addresses do not move by themselves, and addresses that something else has."""
    given = fields.get("nfs")
    if not isinstance(given, Mapping):
        return
    if not provider.names_servers:
        yield _AT, FieldError(*_not_here(provider))
        return
    addresses = given.get("addresses")
    for number, address in enumerate(addresses) if isinstance(addresses, list) else ():
        if isinstance(address, str) and (where := _use_of(address, grid)) is not None:
            yield (
                (*_AT, "addresses", str(number)),
                FieldError(
                    f"{show(address)} is also at {where}: an address that moves between protocol servers "
                    "is nobody else's",
                    "write a free address of the servers' network",
                ),
            )


def _not_here(provider: ProviderKind) -> tuple[str, str]:
    """A cloud delivers to an address by its own records, which ARP does not change.

    Oracle's quick start for Spectrum Scale ends with the remark that such addresses do not work (looked up
    2026-11-28); Amazon EC2 has secondary private addresses that only its API moves, as OCI has.
    """
    if provider.is_cloud:
        return (
            f"protocol servers pass addresses on by ARP, and networks of provider {provider.name} move an "
            "address only by a call of the API: after the death of a server its clients would hang",
            "remove nfs: have clients mount Scale itself, or give them the cloud's own managed NFS",
        )
    return (
        f"protocol servers are machines of a site, and provider {provider.name} has none",
        "remove nfs, or write provider: site",
    )


def _use_of(address: str, grid: Mapping[str, Any]) -> str | None:
    """Where else the spec has this address, as a path of fields; None where it has not."""
    pattern = re.compile(rf"(?<![\d.]){re.escape(address)}(?![\d./])")
    for path, text in _texts(grid, ()):
        is_own = path[-3:-1] == ("nfs", "addresses") or path[-2:-1] == ("clients",)
        if not is_own and pattern.search(text):
            return ".".join(path)
    return None


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:  # noqa: ANN401
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, (*path, str(name)))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, (*path, str(number)))


def nfs_findings(name: str, filesystem: ScaleFileSystem) -> Iterator[Finding]:
    """What works, and hurts when a server dies or is busy."""
    nfs = filesystem.nfs
    if nfs is None:
        return
    if len(nfs.servers) < 2:
        yield Finding(
            "warning",
            "scale-nfs-one-server",
            f"NFS of {name} has one protocol server, {nfs.servers[0]}: nobody takes its addresses over",
            "Name a second one under nfs.servers",
        )
    if len(nfs.addresses) < len(nfs.servers):
        yield Finding(
            "warning",
            "scale-nfs-few-addresses",
            f"NFS of {name} has {len(nfs.addresses)} for {len(nfs.servers)} protocol servers: a server "
            "without an address has no clients",
            f"Write {len(nfs.servers)} addresses or more under nfs.addresses",
        )
    yield from _without_ganesha(name, filesystem, nfs.servers)
    disk_servers = {server for pair in filesystem.pairs or () for server in pair.servers}
    if filesystem.witness is not None:
        disk_servers.add(filesystem.witness.server)
    if both := [server for server in nfs.servers if server in disk_servers]:
        yield Finding(
            "warning",
            "scale-nfs-on-disk-servers",
            f"{', '.join(both)} of {name} serve{'s' * (len(both) == 1)} disks and NFS: what NFS takes of "
            "memory and network all nodes of the grid lack, and a server that NFS brings down takes a path "
            "of its disks along",
            "Name machines of their own under nfs.servers",
        )


def _without_ganesha(name: str, filesystem: ScaleFileSystem, servers: Sequence[str]) -> Iterator[Finding]:
    """Packages that have no NFS server; nobody knows what an address in a variable leads to."""
    given = filesystem.packages or []
    files = [str(each.path or each.url or "").rpartition("/")[2] for each in given]
    if files and not any(not file or file.startswith(_NFS_PACKAGE) for file in files):
        yield Finding(
            "warning",
            "scale-nfs-no-package",
            f"packages of {name} have no {_NFS_PACKAGE}, which serves NFS: where {', '.join(servers)} do not "
            "have it, setup ends there",
            f"Add the {_NFS_PACKAGE} packages of IBM's installer to packages, or have them on these servers",
        )
