"""The commands that bring a cluster from what it is to what is wanted: only what differs, in Scale's order.

Nothing here removes a node, a disk or a file system: what is there and not wanted is told, and left alone; so
are policies with rules of others. Nodes that are silent are left as they are, and hold nothing up. Nodes run
this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gridwright.filesystems.scale.administration.desired import (
    CALLBACK,
    DesiredFileSystem,
    DesiredNode,
    DesiredNsd,
    DesiredSetting,
    ScaleCluster,
    Usage,
)
from gridwright.filesystems.scale.administration.observed import ObservedCluster, records, same_value
from gridwright.filesystems.scale.administration.order import (
    PolicyDifference,
    ScaleCommand,
    add_disks,
    add_nodes,
    change_settings,
    commands,
    designations,
    disks_of,
    full_pool_callback,
    install_policy,
    mm,
    nsds_command,
    pools_named,
    statements,
)
from gridwright.filesystems.scale.administration.order import make_filesystem as made
from gridwright.filesystems.scale.administration.reach import by_hand, notes, reachable, refused


@dataclass(frozen=True)
class Difference:
    """What would be done, what is told, and what stands in the way."""

    commands: tuple[ScaleCommand, ...]
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Reasons to do nothing at all."""


def difference(
    desired: ScaleCluster,
    observed: ObservedCluster,
    placed: ObservedPlacement | None = None,
    *,
    may_stop: bool = False,
) -> Difference:
    """The difference. `may_stop`: whether the daemon may be stopped everywhere for settings that need it.

    Without `placed`, policies of file systems that are there are passed over.
    """
    refusals = tuple(refused(desired, observed))
    if refusals:
        return Difference((), refusals=refusals)
    if not observed.name:
        return Difference(tuple(_made_or_restored(desired, observed)), tuple(by_hand(desired)))
    known = reachable(desired, observed)
    placed = placed or ObservedPlacement()
    waiting = [setting for setting in _settings(known, observed) if setting.needs_down and observed.active]
    blocked = bool(waiting) and not may_stop
    stops = bool(waiting) and may_stop
    steps = (
        *_restored(observed),
        *_new_nodes(known, observed),
        *_licences(known, observed),
        *_classes(known, observed),
        *_nsds(known, observed),
        *_configuration(known, observed, without=waiting if blocked else []),
        *_started(known, observed, stops=stops),
        *_votes(desired, known, observed),
        *_filesystems(known, observed, placed, stops=stops),
    )
    told = notes(desired, known, observed, waiting if blocked else [])
    return Difference(steps, (*told, *_placement_notes(desired, known, placed)))


def _made_or_restored(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    """All of it; or, where this node took a dead one's place, its part of the cluster that is there."""
    members = [name for name, cluster in observed.elsewhere.items() if cluster]
    if not members:
        yield from commands(desired)
        return
    yield mm(
        *("mmsdrrestore", "-p", members[0], "-R", "/usr/bin/scp"),
        why=f"this node is new, and the cluster is there: {members[0]} has its configuration",
    )


def _restored(observed: ObservedCluster) -> Iterator[ScaleCommand]:
    if observed.blank:
        names = ",".join(sorted(observed.blank))
        yield mm("mmsdrrestore", "-N", names, why=f"{names} took a dead node's place")


def _votes(desired: ScaleCluster, known: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    """Who has a vote is changed as a whole or not at all: half of it could stop the cluster."""
    if desired.nodes == known.nodes:
        yield from _designated(known, observed)
        yield from _tiebreakers(known, observed)


def _new_nodes(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    """Without a vote at first: votes of nodes that do not run yet would take quorum from those that do."""
    new = [replace(node, is_quorum=False) for node in desired.nodes if node.name not in observed.nodes]
    if new:
        yield add_nodes(new)


def _designated(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    """What nodes are for: who gets a vote comes before who loses one."""
    differing = []
    for each in desired.nodes:
        there = observed.nodes.get(each.name)
        known = (False, each.is_manager) if there is None else (there.is_quorum, there.is_manager)
        if known != (each.is_quorum, each.is_manager):
            differing.append(each)
    for each in sorted(differing, key=lambda node: not node.is_quorum):
        yield _designate(each)


def _designate(node: DesiredNode) -> ScaleCommand:
    flags = ["--quorum" if node.is_quorum else "--nonquorum", "--manager" if node.is_manager else "--client"]
    return mm("mmchnode", *flags, "-N", node.name, why=f"make {node.name} {designations(node)}")


def _licences(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    for kind in ("server", "client"):
        lacking = [
            node.name
            for node in desired.nodes
            if node.licence == kind and not _has_licence(observed, node.name, kind)
        ]
        if lacking:
            words = ("--accept", "-N", ",".join(lacking))
            yield mm("mmchlicense", kind, *words, why=f"give {len(lacking)} nodes the licence of a {kind}")


def _has_licence(observed: ObservedCluster, name: str, kind: str) -> bool:
    there = observed.nodes.get(name)
    return there is not None and there.licence in (kind, "server")


def _classes(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    for name, members in desired.node_classes.items():
        there = observed.node_classes.get(name)
        if there is None:
            yield mm("mmcrnodeclass", name, "-N", ",".join(members), why=f"name the class {name}")
        elif set(there) != set(members):
            yield mm("mmchnodeclass", name, "replace", "-N", ",".join(members), why=f"members of {name}")


def _nsds(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    new = [nsd for nsd in desired.nsds if nsd.name not in observed.nsds]
    if new:
        yield nsds_command(new)
    moved = [
        nsd
        for nsd in desired.nsds
        if nsd.name in observed.nsds and observed.nsds[nsd.name].servers != nsd.servers
    ]
    if moved:
        servers = ";".join(f"{each.name}:{','.join(each.servers)}" for each in moved)
        yield mm("mmchnsd", servers, why=f"change the servers of {len(moved)} disks")


def _settings(desired: ScaleCluster, observed: ObservedCluster) -> list[DesiredSetting]:
    return [
        setting
        for setting in desired.settings
        if not same_value(
            observed.settings.get((setting.parameter, setting.node_class or ""), ""), setting.value
        )
    ]


def _configuration(
    desired: ScaleCluster, observed: ObservedCluster, without: list[DesiredSetting]
) -> Iterator[ScaleCommand]:
    changed = [setting for setting in _settings(desired, observed) if setting not in without]
    if any(each.needs_down for each in changed) and observed.active:
        yield mm("mmumount", "all", "-a", why="unmount everywhere, as the daemon has to stop", limit_s=900.0)
        yield mm("mmshutdown", "-a", why="stop the daemon everywhere", limit_s=900.0)
    for node_class in dict.fromkeys(each.node_class for each in changed):
        yield change_settings(tuple(each for each in changed if each.node_class == node_class), node_class)


def _tiebreakers(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[ScaleCommand]:
    if set(desired.tiebreakers) != set(observed.tiebreakers):
        value = ";".join(desired.tiebreakers) or "no"
        yield mm("mmchconfig", f"tiebreakerDisks={value}", why="disks that decide between two quorum nodes")


def _started(desired: ScaleCluster, observed: ObservedCluster, *, stops: bool) -> Iterator[ScaleCommand]:
    servers = {node.name for node in desired.nodes if node.is_server}
    down = [node.name for node in desired.nodes if stops or node.name not in observed.active]
    for what, names in (
        ("servers", [name for name in down if name in servers]),
        ("clients", [name for name in down if name not in servers]),
    ):
        if names:
            yield mm("mmstartup", "-N", ",".join(names), why=f"start {len(names)} {what}")


def _filesystems(
    desired: ScaleCluster, observed: ObservedCluster, placed: ObservedPlacement, *, stops: bool
) -> Iterator[ScaleCommand]:
    for filesystem in desired.filesystems:
        there = observed.filesystems.get(filesystem.name)
        disks = disks_of(desired, filesystem.name)
        if there is None:
            yield made(desired, filesystem)
        elif new := [disk for disk in disks if disk.name not in there]:
            pools = {disk.pool for disk in disks if disk.name in there}
            pools |= {placed.disks[name][0] for name in there if name in placed.disks}
            yield from _before_new_pools(filesystem, pools, new, placed)
            yield add_disks(filesystem.name, new, pools)
        yield from _placement_commands(filesystem, desired, placed, is_there=there is not None)
    yield from _callback_commands(desired, placed)
    yield from _mounts(desired, observed, stops=stops)


def _mounts(desired: ScaleCluster, observed: ObservedCluster, *, stops: bool) -> Iterator[ScaleCommand]:
    everywhere = {node.name for node in desired.nodes}
    for filesystem in desired.filesystems:
        mounted = frozenset() if stops else observed.mounted.get(filesystem.name, frozenset())
        lacking = everywhere - mounted
        if lacking:
            names = ",".join(name.name for name in desired.nodes if name.name in lacking)
            yield mm(
                "mmmount",
                filesystem.name,
                "-N",
                names,
                why=f"mount {filesystem.name} on {len(lacking)} nodes",
            )


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


def pools_of_disks(printed: str) -> dict[str, tuple[str, str]]:
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


def _before_new_pools(
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


def _placement_commands(
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


def _callback_commands(known: ScaleCluster, placed: ObservedPlacement) -> Iterator[ScaleCommand]:
    """What runs rules of migration, once for the cluster."""
    wants = any(filesystem.migrates for filesystem in known.filesystems)
    if wants and not has_callback(placed.callbacks) and CALLBACK not in placed.callbacks:
        yield full_pool_callback()


def _placement_notes(desired: ScaleCluster, known: ScaleCluster, placed: ObservedPlacement) -> Iterator[str]:
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
