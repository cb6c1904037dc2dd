"""What is wrong with a Lustre, out of what its clients and servers say; pure functions."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gridwright.errors import Finding
from gridwright.filesystems.allocation import PARTS, THRESHOLD, TargetSpace, fullest_and_emptiest
from gridwright.filesystems.lustre_client.connections import (
    EVICTED,
    RECOVERING,
    SILENT_S,
    SWITCHED,
    Connected,
    LustreConnection,
)
from gridwright.filesystems.lustre_client.servers import RECOVERY_GOES_ON, Served
from gridwright.filesystems.lustre_client.space import Space, Spaces
from gridwright.units import format_bytes

FULL = 0.9
"""Part of a target in use from which its allocator has to search, and administrators act."""
NOTHING = 0.01
"""Below this part of it a target has no room: clients have been promised (granted) what is left."""
RECENT_S = 24 * 3600.0
"""Evictions older than this are history."""
_MOST_NAMED = 6
_STREAMS_PER_OST = 4
_WAITS = "What is asked of it waits until all clients are back"


def connection_findings(connected: Connected, now_s: float) -> Iterator[Finding]:
    """Targets that are switched off or not reached, and evictions of this client."""
    if off := sorted({_switched_off(each, connected) for each in connected.connections if not each.active}):
        # An MDS has devices of the same targets for itself, which stay as they are.
        devices = [
            f"{kind}.<target>-{kind}-ffff*.active=1"
            for kind, of_mdts in (("osc", False), ("mdc", True))
            if any(("-MDT" in each) is of_mdts for each in off)
        ]
        yield Finding(
            "error",
            "target-inactive",
            f"deactivated on this client: {listed(off)}. Reads and writes of files on it fail with EIO, new "
            "files that the MDS places there among them, and lfs df leaves it out without a word",
            f"See why it was deactivated; once its server is up: lctl set_param {' '.join(devices)}, then "
            "lfs df, as one that was idle refuses its files (ESHUTDOWN) until it is asked for its space",
        )
    away = [each for each in connected.connections if each.active and not each.is_up]
    recovering = [each for each in away if each.state in RECOVERING]
    lost = [each for each in away if each.state not in RECOVERING]
    if recovering:
        yield Finding(
            "warning",
            "target-recovering",
            f"recovering: {listed(_with_state(recovering))}. {_WAITS}",
            "Wait; lctl get_param *.*.recovery_status on its server says how long",
        )
    if lost:
        yield Finding(
            "error",
            "target-away",
            f"not connected: {_with_servers(lost)}. Whatever touches it hangs, while lctl dl, "
            "lfs osts and health_check call it well",
            "See whether its server is up, has it mounted, and can be reached (lctl ping NID)",
        )
    yield from _evictions(connected.connections, now_s)


def _switched_off(connection: LustreConnection, connected: Connected) -> str:
    """A target by its name; with its device where another mount of this node goes on."""
    mounts = [each for each in connected.connections if each.target == connection.target]
    if not any(each.active for each in mounts):
        return connection.target
    return f"{connection.target} (for one of {len(mounts)} mounts on this node, {connection.device})"


def recent(connections: Sequence[LustreConnection], state: str, now_s: float) -> dict[str, list[int]]:
    """When connections to each target were in a state within the last day."""
    found: dict[str, list[int]] = defaultdict(list)
    for each in connections:
        for when, was in each.history:
            if was == state and when > now_s - RECENT_S:
                found[each.target].append(when)
    return found


def _evictions(connections: Sequence[LustreConnection], now_s: float) -> Iterator[Finding]:
    if told := _times(recent(connections, EVICTED, now_s)):
        yield Finding(
            "warning",
            "client-evicted",
            f"evicted in the last day by {told}. What jobs had written and it had not taken is lost",
            "Run those jobs again; look for the reason in dmesg of both: a network that drops, or a node out "
            "of memory",
        )
    if told := _times(recent(connections, SWITCHED, now_s)):
        yield Finding(
            "info",
            "target-reactivated",
            f"deactivated by an administrator of this node in the last day, and active again: {told}. What "
            "jobs were writing to it at that time is lost",
            "Run jobs again that wrote then; others lack nothing",
        )


def _times(recent: Mapping[str, Sequence[int]]) -> str:
    return listed(
        [
            f"{target} (last at {_clock(max(times))}{f', {len(times)} times' if len(times) > 1 else ''})"
            for target, times in sorted(recent.items())
        ]
    )


def space_findings(connected: Connected, spaces: Spaces) -> Iterator[Finding]:
    """Targets that are silent, flagged, full, or far apart."""
    waiting = [each for each in connected.connections if each.is_silent]
    if waiting:
        words = [
            f"{each.target}{f' at {each.server}' if each.server else ''} ({each.waiting} "
            f"{'request' if each.waiting == 1 else 'requests'} on the way, "
            f"{waits_for(each)}, {each.timeouts} timed out since the mount)"
            for each in waiting
        ]
        yield Finding(
            "error",
            "target-silent",
            f"{listed(words)}: it counts as connected, and whatever touches it hangs",
            "See whether its server is overloaded or gone; a client notices that after its timeout only",
        )
    flagged = [f"{target} ({', '.join(space.flags)})" for target, space in spaces.of.items() if space.flags]
    if flagged:
        yield Finding(
            "warning",
            "target-degraded",
            f"{listed(flagged)}: new files avoid it",
            unflagging(space.flags for space in spaces.of.values()),
        )
    yield from _full({target: space for target, space in spaces.of.items() if "read-only" not in space.flags})
    yield from _unbalanced(allocated_space(connected, spaces))


def waits_for(connection: LustreConnection) -> str:
    """What a silent target does not do, and since when."""
    if connection.unanswered_s >= SILENT_S:
        return f"no answer for {connection.unanswered_s:.0f} s"
    return f"no read or write ended in {connection.stalled_s:.0f} s, while it answers other questions"


def allocated_space(connected: Connected, spaces: Spaces) -> tuple[TargetSpace, ...]:
    """What the metadata server knows of each OST that told its space, when it places new files."""
    servers = {each.target: each.server for each in connected.connections if each.kind == "OST"}
    return tuple(
        TargetSpace(target, space.available_bytes, space.total_bytes, servers[target], not space.flags)
        for target, space in sorted(spaces.of.items())
        if target in servers
    )


def _full(spaces: Mapping[str, Space]) -> Iterator[Finding]:
    full = {
        target: share
        for target, space in spaces.items()
        if (share := 1 - space.available_bytes / space.total_bytes) > FULL
    }
    if full:
        gone = any(spaces[target].available_bytes < NOTHING * spaces[target].total_bytes for target in full)
        words = [
            f"{target} ({100 * share:.0f} %, {format_bytes(spaces[target].available_bytes)} left)"
            for target, share in sorted(full.items(), key=lambda each: -each[1])
        ]
        yield Finding(
            "error" if gone else "warning",
            "target-full",
            f"nearly full: {listed(words)}. A file fails when one target of its layout is full, "
            "whatever room the others have",
            "gridwright layout rebalance moves large files off a target that is fuller than others by far; "
            "else remove files, or move some: lfs find --ost TARGET -size +1G DIR, then lfs migrate",
        )
    scarce = [
        f"{target} ({space.inodes_free} left)"
        for target, space in spaces.items()
        if space.inodes and space.inodes_free is not None and space.inodes_free < (1 - FULL) * space.inodes
    ]
    if scarce:
        yield Finding(
            "warning",
            "target-inodes",
            f"nearly out of inodes: {listed(scarce)}",
            "Remove small files that are not needed",
        )


def _unbalanced(osts: Sequence[TargetSpace]) -> Iterator[Finding]:
    ends = fullest_and_emptiest(osts)
    if ends is None:
        return
    least, most = ends
    yield Finding(
        "warning",
        "targets-unbalanced",
        f"{least.name} has {_free(least)} and {most.name} {_free(most)}: from "
        f"{100 * THRESHOLD / PARTS:.1f} % apart, new files go to the emptier targets, "
        f"which then serve most of the load. {_cost(osts)}",
        "Stripe large files over more targets (gridwright layout set), and move some off the full one: "
        "gridwright layout rebalance",
    )


def _free(target: TargetSpace) -> str:
    return f"{100 * target.free_part:.0f} % free ({format_bytes(target.available_bytes)})"


def _cost(osts: Sequence[TargetSpace]) -> str:
    """What new files of one stripe cost as many streams as a busy grid has, without knowing the grid."""
    from gridwright.filesystems.placements import met_in_half, spread

    count, streams = len(osts), _STREAMS_PER_OST * len(osts)
    apart, alike = spread(streams, count, 1, tuple(osts)), spread(streams, count, 1)
    met = met_in_half(streams, osts, 1)
    return (
        f"{streams} streams with new files of one stripe meet {met} of {count} OSTs, and get "
        f"{100 * apart.floor:.0f} % or more of what all OSTs deliver in 95 % of placements, against "
        f"{100 * alike.floor:.0f} % where space is alike"
    )


def version_findings(connected: Connected) -> Iterator[Finding]:
    """Servers of different releases, and a client of another than its servers."""
    versions = {each.target: _release(each.version) for each in connected.connections if each.version}
    counted = Counter(versions.values())
    if len(counted) > 1:
        words = [f"{release} on {number}" for release, number in counted.most_common()]
        yield Finding(
            "warning",
            "lustre-servers-differ",
            f"servers of different releases: {listed(words)} targets",
            "Finish the upgrade of the servers",
        )
    client = _release(connected.client_version or "")
    if client and counted and not any(_line(client) == _line(each) for each in counted):
        yield Finding(
            "info",
            "lustre-client-differs",
            f"the client is of release {client}, its servers of {listed(sorted(counted))}",
            "See in the support matrix of the release whether they are tested together",
        )


def _release(version: str | None) -> str:
    """2.17.0 out of 2.17.0.0 and 2.12.8_6_g5457c37: what releases are called by."""
    return ".".join((version or "").split("_")[0].split(".")[:3])


def _line(release: str) -> list[str]:
    return release.split(".")[:2]


def management_findings(connected: Connected, source: str) -> Iterator[Finding]:
    """A management server that is gone: all works until somebody mounts."""
    mine = [state for nid, state in connected.management if source.startswith(nid)]
    if mine and not any(state in ("FULL", "IDLE") for state in mine):
        yield Finding(
            "warning",
            "management-server-away",
            f"the management server of {source} is not connected ({mine[0]}): new mounts fail",
            "See whether it is up, and its target mounted there",
        )


def served_findings(served: Sequence[Served]) -> Iterator[Finding]:
    """What a server says of its own targets."""
    waiting = [each for each in served if each.recovery in RECOVERY_GOES_ON]
    if waiting:
        words = [
            f"{each.target} ({each.recovery}{f', {each.clients} clients' if each.clients else ''}"
            f"{f', {each.recovery_left_s} s left' if each.recovery_left_s is not None else ''})"
            for each in waiting
        ]
        yield Finding(
            "warning",
            "target-recovering",
            f"recovering: {listed(words)}. {_WAITS}",
            "Wait; where a client is gone for good: lctl --device TARGET abort_recovery",
        )
    flagged = [f"{each.target} ({', '.join(each.flags)})" for each in served if each.flags]
    if flagged:
        yield Finding(
            "warning",
            "target-degraded",
            f"{listed(flagged)}: new files avoid it",
            unflagging(each.flags for each in served),
        )


_MENDS: Mapping[str, str] = {
    "degraded": "see the array below it, then lctl set_param obdfilter.TARGET.degraded=0",
    "read-only": "see why in dmesg, then lctl set_param obdfilter.TARGET.readonly=0",
    "deactivated on its MDS": "on the MDS, lctl set_param osp.TARGET-osc-MDT*.active=1",
    "max_create_count=0": "on the MDS, lctl set_param osp.TARGET-osc-MDT*.max_create_count=20000, unless "
    "it is being emptied",
    "takes no new files": "lctl set_param obdfilter.TARGET.no_create=0, unless it is being emptied",
}


def unflagging(flags: Iterable[Sequence[str]]) -> str:
    """What ends each of these flags; a target that is out of space or inodes sets its flag itself."""
    there = {flag for each in flags for flag in each}
    ways = [f"{flag}: {mend}" for flag, mend in _MENDS.items() if flag in there]
    others = sorted(there - set(_MENDS))
    return f"On its server: {'; '.join(ways)}" if ways else f"Remove files there ({', '.join(others)})"


def _clock(when_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(when_s))


def _with_state(connections: Sequence[LustreConnection]) -> list[str]:
    return sorted({f"{each.target} ({each.state or 'no state'})" for each in connections})


def _with_servers(connections: Sequence[LustreConnection]) -> str:
    servers = sorted({each.server for each in connections if each.server})
    return f"{listed(_with_state(connections))}{f' at {listed(servers)}' if servers else ''}"


def unreached_words(connected: Connected) -> str | None:
    """Targets that are switched off, not connected or silent; None where there are none."""
    off = [each.target for each in connected.connections if not each.active]
    lost = [each for each in connected.connections if each.active and not each.is_up]
    silent = [each for each in connected.connections if each.is_silent]
    words = [
        *([f"deactivated on this client: {listed(sorted(set(off)))}"] if off else []),
        *([f"not connected: {_with_servers(lost)}"] if lost else []),
        *([f"no answer from {_with_servers(silent)}"] if silent else []),
    ]
    return "; ".join(words) or None


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
