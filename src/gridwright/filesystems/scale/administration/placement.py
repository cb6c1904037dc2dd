"""Where files go in the pools of file systems: the policy that is there, its event, disks elsewhere. Pure.

Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gridwright.filesystems.scale.administration.desired import (
    CALLBACK,
    DesiredFileSystem,
    DesiredNsd,
    ScaleCluster,
    Usage,
)
from gridwright.filesystems.scale.administration.order import (
    ScaleCommand,
    full_pool_callback,
    install_policy,
)
from gridwright.filesystems.scale.administration.policy import PolicyDifference, pools_named, statements
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
    callbacks: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    for line in printed.splitlines():
        named = re.match(r"^\s+(\w+)\s*=\s*(.*?)\s*$", line)
        if named:
            values[named[1]] = named[2]
        elif re.match(r"^\S+\s*$", line):
            values = callbacks.setdefault(line.strip(), {})
    return callbacks


def has_callback(callbacks: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether something runs the rules of migration when a pool is full, whoever registered it."""
    return any(
        "lowdiskspace" in callback.get("event", "").lower().split(",")
        and callback.get("command", "").endswith("/mmstartpolicy")
        for callback in callbacks.values()
    )


def missing_pools(desired: DesiredFileSystem, known: ScaleCluster) -> frozenset[str]:
    """Pools that rules name, and that have no disk yet: some wait for a server."""
    there = {nsd.pool for nsd in known.nsds if nsd.filesystem == desired.name}
    return pools_named(desired.rules) - there


def before_new_pools(
    desired: DesiredFileSystem,
    pools: Collection[str],
    new: Collection[DesiredNsd],
    placed: ObservedPlacement,
) -> Iterator[ScaleCommand]:
    """Rules of the `pools` that are there, before another one is made in a file system that has no rules.

    Scale would put new files in that one as soon as it is there (mmchpolicy command).
    """
    installed = placed.policies.get(desired.name)
    if installed is None or statements(installed) or all(nsd.pool in pools for nsd in new):
        return
    rules = tuple(rule for rule in desired.rules if pools_named((rule,)) <= frozenset(pools))
    if any("SET POOL" in rule for rule in rules):
        yield install_policy(replace(desired, rules=rules))


def placement_commands(
    desired: DesiredFileSystem, known: ScaleCluster, placed: ObservedPlacement, *, is_there: bool
) -> Iterator[ScaleCommand]:
    """The policy, where rules of the grid differ and nobody else has any, and what runs it at the event."""
    if not desired.rules or missing_pools(desired, known):
        return
    if is_there and desired.name not in placed.policies:
        return
    difference = PolicyDifference(desired.rules, placed.policies.get(desired.name, ""))
    if difference.differs and not difference.others:
        yield install_policy(desired)


def callback_commands(known: ScaleCluster, placed: ObservedPlacement) -> Iterator[ScaleCommand]:
    """What runs rules of migration, once for the cluster."""
    wants = any(filesystem.migrates for filesystem in known.filesystems)
    if wants and not has_callback(placed.callbacks) and CALLBACK not in placed.callbacks:
        yield full_pool_callback()


def placement_notes(desired: ScaleCluster, known: ScaleCluster, placed: ObservedPlacement) -> Iterator[str]:
    """What needs somebody's decision."""
    for filesystem in known.filesystems:
        if filesystem.rules and (missing := missing_pools(filesystem, known)):
            names = ", ".join(sorted(missing))
            yield f"rules of {filesystem.name} wait: pool {names} that they name has no disk yet"
        if filesystem.name in placed.policies:
            yield from _of_others(filesystem, placed.policies[filesystem.name])
    wants = any(each.migrates for each in known.filesystems)
    if wants and CALLBACK in placed.callbacks and not has_callback(placed.callbacks):
        yield (
            f"callback {CALLBACK} does something else than to run mmstartpolicy at lowDiskSpace, so that "
            f"full pools stay full: mmdelcallback {CALLBACK}, and run it again"
        )
    yield from _moved(desired.nsds, placed.disks)


def _of_others(desired: DesiredFileSystem, installed: str) -> Iterator[str]:
    difference = PolicyDifference(desired.rules, installed)
    if difference.differs and difference.others:
        words = [f"add {each}" for each in difference.lacking] + [
            f"remove {each}" for each in difference.outdated
        ]
        yield (
            f"the policy of {desired.name} has rules that others wrote, and is left as it is. By hand, in "
            f"what mmlspolicy {desired.name} -L prints, for mmchpolicy: {'; '.join(words)}"
        )


def _moved(nsds: tuple[DesiredNsd, ...], disks: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Disks keep pool and usage until somebody moves their data."""
    pools: dict[tuple[str, str], list[str]] = {}
    usages: dict[tuple[str, str, str], list[str]] = {}
    for nsd in nsds:
        pool, usage = disks.get(nsd.name, (nsd.pool, nsd.usage))
        if nsd.usage == "descOnly" or usage == "descOnly":
            continue
        if pool != nsd.pool:
            pools.setdefault((pool, nsd.pool), []).append(nsd.name)
        elif usage != nsd.usage:
            usages.setdefault((nsd.filesystem, usage, nsd.usage), []).append(nsd.name)
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
