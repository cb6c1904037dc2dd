"""The commands that bring a cluster from what it is to what is wanted: only what differs, in Scale's order.

Nothing here removes a node, a disk or a file system: what is there and not wanted is told, and left alone.
Nodes that are silent are left as they are, and hold nothing up. Nodes run this with Python 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridwright.filesystems.scale.administration.desired import DesiredNode, DesiredSetting, ScaleCluster
from gridwright.filesystems.scale.administration.naming import same_value
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.order import (
    ScaleCommand,
    add_disks,
    add_nodes,
    change_settings,
    commands,
    mm,
    nsds_command,
)
from gridwright.filesystems.scale.administration.order import make_filesystem as made
from gridwright.filesystems.scale.administration.placement import (
    ObservedPlacement,
    before_new_pools,
    callback_commands,
    placement_commands,
    placement_notes,
)
from gridwright.filesystems.scale.administration.reach import by_hand, notes, reachable, refused
from gridwright.filesystems.scale.administration.stanzas import designations, disks_of


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
    return Difference(steps, (*told, *placement_notes(desired, known, placed)))


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
            yield from before_new_pools(filesystem, pools, new, placed)
            yield add_disks(filesystem.name, new, pools)
        yield from placement_commands(filesystem, desired, placed, is_there=there is not None)
    yield from callback_commands(desired, placed)
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
