"""Where files go in the pools of file systems: the policy that is there, its event, disks elsewhere. Pure.

Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gridwright.filesystems.scale.administration.order import (
    ScaleCommand,
    full_pool_callback,
    install_policy,
)
from gridwright.filesystems.scale.administration.policy import PolicyDifference, pools_named, statements
from gridwright.filesystems.scale.administration.wanted import (
    CALLBACK,
    ScaleCluster,
    Usage,
    WantedFileSystem,
    WantedNsd,
)
from gridwright.filesystems.scale.administration.y_format import records

_MOST_NAMED = 8
_USAGE: Mapping[tuple[bool, bool], Usage] = {
    (True, True): "dataAndMetadata",
    (False, True): "dataOnly",
    (True, False): "metadataOnly",
    (False, False): "descOnly",
}
"""By whether a disk holds metadata, and data."""


@dataclass(frozen=True)
class ObservedPlacement:
    """What there is of file systems that the grid wants pools of; `policies` has no others."""

    policies: Mapping[str, str] = field(default_factory=dict)
    """As `mmlspolicy DEVICE -L` prints them."""
    disks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Pool and usage of their NSDs."""
    callbacks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What Scale runs at events, by name."""


def disks_of(printed: str) -> dict[str, tuple[str, str]]:
    """Pool and usage of each NSD, out of `mmlsdisk DEVICE -Y`. Raises KeyError for a column that lacks."""
    return {
        row["nsdName"]: (
            row["storagePool"],
            _USAGE[row["metadata"].lower() == "yes", row["data"].lower() == "yes"],
        )
        for rows in records(printed).values()
        for row in rows
    }


def callbacks_of(printed: str) -> dict[str, dict[str, str]]:
    """What `mmlscallback` prints: a name, then `word = value` on lines that are set in."""
    found: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    for line in printed.splitlines():
        named = re.match(r"^\s+(\w+)\s*=\s*(.*?)\s*$", line)
        if named:
            values[named[1]] = named[2]
        elif re.match(r"^\S+\s*$", line):
            values = found.setdefault(line.strip(), {})
    return found


def has_callback(callbacks: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether something runs the rules of migration when a pool is full, whoever registered it."""
    return any(
        "lowdiskspace" in each.get("event", "").lower().split(",")
        and each.get("command", "").endswith("/mmstartpolicy")
        for each in callbacks.values()
    )


def missing_pools(wanted: WantedFileSystem, known: ScaleCluster) -> frozenset[str]:
    """Pools that rules name, and that have no disk yet: some wait for a server."""
    there = {each.pool for each in known.nsds if each.filesystem == wanted.name}
    return pools_named(wanted.rules) - there


def before_new_pools(
    wanted: WantedFileSystem,
    pools: Collection[str],
    new: Collection[WantedNsd],
    placed: ObservedPlacement,
) -> Iterator[ScaleCommand]:
    """Rules of the `pools` that are there, before another one is made in a file system that has no rules.

    Scale would put new files in that one as soon as it is there (mmchpolicy command).
    """
    installed = placed.policies.get(wanted.name)
    if installed is None or statements(installed) or all(each.pool in pools for each in new):
        return
    rules = tuple(each for each in wanted.rules if pools_named((each,)) <= frozenset(pools))
    if any("SET POOL" in each for each in rules):
        yield install_policy(replace(wanted, rules=rules))


def placement_commands(
    wanted: WantedFileSystem, known: ScaleCluster, placed: ObservedPlacement, *, is_there: bool
) -> Iterator[ScaleCommand]:
    """The policy, where rules of the grid differ and nobody else has any, and what runs it at the event."""
    if not wanted.rules or missing_pools(wanted, known):
        return
    if is_there and wanted.name not in placed.policies:
        return
    found = PolicyDifference(wanted.rules, placed.policies.get(wanted.name, ""))
    if found.differs and not found.others:
        yield install_policy(wanted)


def callback_commands(known: ScaleCluster, placed: ObservedPlacement) -> Iterator[ScaleCommand]:
    """What runs rules of migration, once for the cluster."""
    wants = any(each.migrates for each in known.filesystems)
    if wants and not has_callback(placed.callbacks) and CALLBACK not in placed.callbacks:
        yield full_pool_callback()


def placement_notes(wanted: ScaleCluster, known: ScaleCluster, placed: ObservedPlacement) -> Iterator[str]:
    """What needs somebody's decision."""
    for each in known.filesystems:
        if each.rules and (missing := missing_pools(each, known)):
            names = ", ".join(sorted(missing))
            yield f"rules of {each.name} wait: pool {names} that they name has no disk yet"
        if each.name in placed.policies:
            yield from _of_others(each, placed.policies[each.name])
    wants = any(each.migrates for each in known.filesystems)
    if wants and CALLBACK in placed.callbacks and not has_callback(placed.callbacks):
        yield (
            f"callback {CALLBACK} does something else than to run mmstartpolicy at lowDiskSpace, so that "
            f"full pools stay full: mmdelcallback {CALLBACK}, and run it again"
        )
    yield from _moved(wanted.nsds, placed.disks)


def _of_others(wanted: WantedFileSystem, installed: str) -> Iterator[str]:
    found = PolicyDifference(wanted.rules, installed)
    if found.differs and found.others:
        words = [f"add {each}" for each in found.lacking] + [f"remove {each}" for each in found.outdated]
        yield (
            f"the policy of {wanted.name} has rules that others wrote, and is left as it is. By hand, in "
            f"what mmlspolicy {wanted.name} -L prints, for mmchpolicy: {'; '.join(words)}"
        )


def _moved(nsds: tuple[WantedNsd, ...], disks: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Disks keep pool and usage until somebody moves their data."""
    pools: dict[tuple[str, str], list[str]] = {}
    usages: dict[tuple[str, str, str], list[str]] = {}
    for each in nsds:
        pool, usage = disks.get(each.name, (each.pool, each.usage))
        if each.usage == "descOnly" or usage == "descOnly":
            continue
        if pool != each.pool:
            pools.setdefault((pool, each.pool), []).append(each.name)
        elif usage != each.usage:
            usages.setdefault((each.filesystem, usage, each.usage), []).append(each.name)
    for (there, should), names in sorted(pools.items()):
        yield (
            f"{_listed(names)} in pool {there}, and the spec has pool {should}: a disk changes its pool when "
            "it is taken out and added again (mmdeldisk, mmadddisk), by hand"
        )
    for (filesystem, was, will), names in sorted(usages.items()):
        yield (
            f"{_listed(names)} {was}, and the spec has {will}: mmchdisk {filesystem} change -F with these "
            f"NSDs and usage={will}, then mmrestripefs {filesystem} -m, by hand"
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
    noun, verb = ("NSDs", "are") if len(names) > 1 else ("NSD", "is")
    return f"{noun} {', '.join(names[:_MOST_NAMED])}{more} {verb}"
