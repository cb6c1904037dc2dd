"""Rules of storage pools, each with its reason and the nearest value that is right.

What Scale takes is IBM's (IBM Storage Scale 5.2: storage pools, policies, mmcrfs command).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
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
