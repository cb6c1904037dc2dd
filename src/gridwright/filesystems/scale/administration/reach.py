"""What can be done now, what is told, and what stands in the way, such as disks that hold something.

mmcrnsd refuses what has the ID of an NSD, and writes over anything else. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gridwright.filesystems.scale.administration.desired import DesiredNsd, DesiredSetting, ScaleCluster
from gridwright.filesystems.scale.administration.observed import (
    ObservedCluster,
    ScaleError,
    records,
    same_value,
    short,
)


def reachable(desired: ScaleCluster, observed: ObservedCluster) -> ScaleCluster:
    """The part of a cluster whose nodes answer; disks that are to be made need all of their servers."""
    silent = observed.silent
    if not silent:
        return desired
    nsds = tuple(
        nsd for nsd in desired.nsds if nsd.name in observed.nsds or not silent.intersection(nsd.servers)
    )
    names = {nsd.name for nsd in nsds}
    return replace(
        desired,
        nodes=tuple(node for node in desired.nodes if node.name not in silent),
        nsds=nsds,
        node_classes={
            name: tuple(member for member in members if member in observed.nodes or member not in silent)
            for name, members in desired.node_classes.items()
        },
        filesystems=tuple(
            replace(filesystem, nsds=tuple(name for name in filesystem.nsds if name in names))
            for filesystem in desired.filesystems
        ),
    )


def refused(desired: ScaleCluster, observed: ObservedCluster) -> Iterator[str]:
    """Reasons to do nothing at all."""
    if observed.name and short(observed.name) != short(desired.name):
        yield f"this node is in cluster {observed.name}, and not in {desired.name}: it is left alone"
    for name, cluster in observed.elsewhere.items():
        if cluster and short(cluster) != short(desired.name):
            yield f"{name} is in cluster {cluster}, and not in {desired.name}: it is left alone"
    is_there = any(short(each) == short(desired.name) for each in observed.elsewhere.values() if each)
    if not observed.name and not is_there and observed.silent:
        names = ", ".join(sorted(observed.silent))
        yield (
            "a cluster is made of nodes that all answer, and ssh from here does not reach "
            f"{names}, or Spectrum Scale is not installed there"
        )
    for filesystem in desired.filesystems:
        for name in filesystem.nsds:
            there = observed.nsds.get(name)
            if there is not None and there.filesystem not in ("", filesystem.name):
                yield f"NSD {name} is a disk of file system {there.filesystem}, and not of {filesystem.name}"


def notes(
    desired: ScaleCluster, known: ScaleCluster, observed: ObservedCluster, blocked: Sequence[DesiredSetting]
) -> Iterator[str]:
    """What needs somebody's decision."""
    names = {node.name for node in desired.nodes}
    for name in sorted(observed.nodes.keys() - names):
        yield f"node {name} is in the cluster and not in the grid spec: mmdelnode -N {name} removes it"
    for name in sorted(observed.nsds.keys() - {each.name for each in desired.nsds}):
        yield f"NSD {name} is not in the grid spec: its data stay until it is removed by hand"
    for name in sorted(observed.silent):
        yield f"node {name} does not answer: all that is its own waits until it is back"
    for nsd in desired.nsds:
        if nsd not in known.nsds:
            yield f"NSD {nsd.name} is not made yet: it needs {' and '.join(nsd.servers)}"
    if blocked:
        changing = ", ".join(setting.parameter for setting in blocked)
        yield f"{changing} changes only while the daemon is down on every node: run it again with --may-stop"
    yield from by_hand(desired)
    yield from _from_next_start(known, observed, blocked)


def by_hand(desired: ScaleCluster) -> Iterator[str]:
    """What only the administrators of two clusters can do together: each has to take the other's key."""
    for remote in desired.remotes:
        if remote.key:
            continue
        name, contacts = remote.filesystem, ",".join(remote.contacts)
        yield (
            f"file system {name} of cluster {remote.cluster} is mounted by hand: exchange keys with its "
            f"administrators (mmauth), then mmremotecluster add {remote.cluster} -n {contacts} "
            f"and mmremotefs add {name} -f {name} -C {remote.cluster} -T {remote.mount_point}"
        )


def _from_next_start(
    known: ScaleCluster, observed: ObservedCluster, blocked: Sequence[DesiredSetting]
) -> Iterator[str]:
    """Attributes hold from the next start of the daemon on (mmchconfig command, without -i)."""
    changed = [
        setting.parameter
        for setting in known.settings
        if setting not in blocked
        and not setting.needs_down
        and not same_value(
            observed.settings.get((setting.parameter, setting.node_class or ""), ""), setting.value
        )
    ]
    if changed and observed.active:
        yield (
            f"{', '.join(dict.fromkeys(changed))}: daemons that run have it from their next start on: of "
            "servers with --may-restart, of clients when no job uses the node"
        )


OnNode = Callable[[str, str], "tuple[int, str, str]"]
"""Runs a command on a node: its exit status, what it printed and what it said on stderr."""
_AT_A_TIME = 16


def new_disks(desired: ScaleCluster, observed: ObservedCluster) -> tuple[DesiredNsd, ...]:
    """Those that would be made NSDs now."""
    return tuple(nsd for nsd in reachable(desired, observed).nsds if nsd.name not in observed.nsds)


def refused_disks(nsds: Sequence[DesiredNsd], on_node: OnNode) -> Iterator[str]:
    """Disks that hold something, each with what it is.

    Raises ScaleError with the disks that are not there on a server of theirs: it may be that they come yet.
    """
    places = [(nsd, server) for nsd in nsds for server in nsd.servers]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        told = list(pool.map(lambda place: _look(place[0], place[1], on_node), places))
    away = [
        f"{nsd.device} on {server} ({error})"
        for (nsd, server), (status, _, error) in zip(places, told)  # noqa: B905 - Python 3.9
        if status
    ]
    if away:
        raise ScaleError(f"disks are not there on all of their servers: {', '.join(away)}")
    for (nsd, server), (_, printed, _) in zip(places, told):  # noqa: B905 - Python 3.9
        there = tuple(signatures(printed.splitlines()))
        if there and server == nsd.servers[0]:
            yield (
                f"{nsd.device} on {server} holds {' and '.join(there)}, which would be written over: name "
                f"another disk, or empty it with wipefs --all {nsd.device} if nobody needs that"
            )


def _look(nsd: DesiredNsd, server: str, on_node: OnNode) -> tuple[int, str, str]:
    status, printed, error = on_node(server, f"wipefs --parsable {shlex.quote(nsd.device)}")
    return status, printed, error.strip()[-200:]


def lost_paths(printed: str) -> Iterator[str]:
    """Servers that do not see a disk of theirs, out of `mmlsnsd -X -Y`; without those that do not answer."""
    lost: dict[str, list[str]] = {}
    for rows in records(printed).values():
        for row in rows:
            if row.get("diskName") and "not found" in row.get("remarks", "").lower():
                lost.setdefault(short(row.get("serverList", "")), []).append(row["diskName"])
    for server, names in sorted(lost.items()):
        yield (
            f"{server} does not see {', '.join(sorted(names)[:8])} ({len(names)} of its disks): the other "
            "server of the pair serves them alone; bring them back there, then mmnsddiscover -a -N all"
        )


def signatures(lines: Iterable[str]) -> Iterator[str]:
    """Types out of `wipefs --parsable`, rows of offset, UUID, label and type (util-linux, wipefs(8))."""
    seen = set()
    for line in lines:
        if line.startswith("#") or "," not in line:
            continue
        kind = line.rpartition(",")[2].strip() or "something"
        if kind not in seen:
            seen.add(kind)
            yield kind
