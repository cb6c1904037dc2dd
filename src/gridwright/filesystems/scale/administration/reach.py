"""What can be done now, what is told, and what stands in the way. Nodes run this with Python 3.9."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridwright.filesystems.scale.administration.naming import same_value, short
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.wanted import ScaleCluster, WantedSetting


def reachable(wanted: ScaleCluster, observed: ObservedCluster) -> ScaleCluster:
    """The part of a cluster whose nodes answer; disks that are to be made need all of their servers."""
    silent = observed.silent
    if not silent:
        return wanted
    nsds = tuple(
        each for each in wanted.nsds if each.name in observed.nsds or not silent.intersection(each.servers)
    )
    names = {each.name for each in nsds}
    return replace(
        wanted,
        nodes=tuple(each for each in wanted.nodes if each.name not in silent),
        nsds=nsds,
        node_classes={
            name: tuple(each for each in members if each in observed.nodes or each not in silent)
            for name, members in wanted.node_classes.items()
        },
        filesystems=tuple(
            replace(each, nsds=tuple(name for name in each.nsds if name in names))
            for each in wanted.filesystems
        ),
    )


def refused(wanted: ScaleCluster, observed: ObservedCluster) -> Iterator[str]:
    """Reasons to do nothing at all."""
    if observed.name and short(observed.name) != short(wanted.name):
        yield f"this node is in cluster {observed.name}, and not in {wanted.name}: it is left alone"
    for name, cluster in observed.elsewhere.items():
        if cluster and short(cluster) != short(wanted.name):
            yield f"{name} is in cluster {cluster}, and not in {wanted.name}: it is left alone"
    is_there = any(short(each) == short(wanted.name) for each in observed.elsewhere.values() if each)
    if not observed.name and not is_there and observed.silent:
        names = ", ".join(sorted(observed.silent))
        yield (
            "a cluster is made of nodes that all answer, and ssh from here does not reach "
            f"{names}, or Spectrum Scale is not installed there"
        )
    for each in wanted.filesystems:
        for name in each.nsds:
            there = observed.nsds.get(name)
            if there is not None and there.filesystem not in ("", each.name):
                yield f"NSD {name} is a disk of file system {there.filesystem}, and not of {each.name}"


def notes(
    wanted: ScaleCluster, known: ScaleCluster, observed: ObservedCluster, blocked: Sequence[WantedSetting]
) -> Iterator[str]:
    """What needs somebody's decision."""
    names = {each.name for each in wanted.nodes}
    for name in sorted(observed.nodes.keys() - names):
        yield f"node {name} is in the cluster and not in the grid spec: mmdelnode -N {name} removes it"
    for name in sorted(observed.nsds.keys() - {each.name for each in wanted.nsds}):
        yield f"NSD {name} is not in the grid spec: its data stay until it is removed by hand"
    for name in sorted(observed.silent):
        yield f"node {name} does not answer: all that is its own waits until it is back"
    for each in wanted.nsds:
        if each not in known.nsds:
            yield f"NSD {each.name} is not made yet: it needs {' and '.join(each.servers)}"
    if blocked:
        changing = ", ".join(each.parameter for each in blocked)
        yield f"{changing} changes only while the daemon is down on every node: run it again with --may-stop"
    yield from by_hand(wanted)
    yield from _from_next_start(known, observed, blocked)


def by_hand(wanted: ScaleCluster) -> Iterator[str]:
    """What only the administrators of two clusters can do together: each has to take the other's key."""
    for each in wanted.remotes:
        if each.key:
            continue
        name, contacts = each.filesystem, ",".join(each.contacts)
        yield (
            f"file system {name} of cluster {each.cluster} is mounted by hand: exchange keys with its "
            f"administrators (mmauth), then mmremotecluster add {each.cluster} -n {contacts} "
            f"and mmremotefs add {name} -f {name} -C {each.cluster} -T {each.mount_point}"
        )


def _from_next_start(
    known: ScaleCluster, observed: ObservedCluster, blocked: Sequence[WantedSetting]
) -> Iterator[str]:
    """Attributes hold from the next start of the daemon on (mmchconfig command, without -i)."""
    changed = [
        each.parameter
        for each in known.settings
        if each not in blocked
        and not each.needs_down
        and not same_value(observed.settings.get((each.parameter, each.node_class or ""), ""), each.value)
    ]
    if changed and observed.active:
        yield (
            f"{', '.join(dict.fromkeys(changed))}: daemons that run have it from their next start on: of "
            "servers with --may-restart, of clients when no job uses the node"
        )
