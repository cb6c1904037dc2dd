"""The health of a Lustre, as a client or a server of it sees it, looked up in bounded time.

First what is wrong, as pure functions of what clients and servers say; then who asks; then why a write found
no space while the Lustre has some.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.commands import CommandSilent
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.allocation import (
    PARTS,
    THRESHOLD,
    TargetSpace,
    fullest_and_emptiest,
    met_in_half,
    spread,
)
from gridwright.filesystems.health import (
    INCOMPLETE,
    Condition,
    Health,
    Run,
    Server,
    TargetHealth,
    TimeUp,
    condition_of,
    gravest_first,
    incomplete,
)
from gridwright.filesystems.lustre_client.connections import (
    EVICTED,
    RECOVERING,
    SILENT_S,
    SWITCHED,
    Connected,
    LustreConnection,
    read_connections,
    with_stalled,
    with_switched,
)
from gridwright.filesystems.lustre_client.layout import read_layout
from gridwright.filesystems.lustre_client.metadata_servers import (
    coordinator_findings,
    read_changelogs,
    read_coordinators,
    retention_findings,
)
from gridwright.filesystems.lustre_client.parameters import client_mount, file_system_name, is_root, serves
from gridwright.filesystems.lustre_client.targets import (
    RECOVERY_GOES_ON,
    Served,
    Space,
    Spaces,
    read_served,
    read_space,
)
from gridwright.filesystems.mounts import Mount, mount_of, read_mounts
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
    goes_on = any(each.active for each in connected.connections if each.target == connection.target)
    return _named(connection, connected.connections) if goes_on else connection.target


def _named(connection: LustreConnection, connections: Sequence[LustreConnection]) -> str:
    """A target by its name; with the device of its mount where this node has several."""
    mounts = sum(each.target == connection.target for each in connections)
    if mounts < 2:
        return connection.target
    return f"{connection.target} (for one of {mounts} mounts on this node, {connection.device})"


def recent(connections: Sequence[LustreConnection], state: str, now_s: float) -> dict[str, list[int]]:
    """When connections to each target were in a state within the last day.

    A target has the name of its device beside it where only some of this node's mounts were.
    """
    found: dict[str, list[int]] = defaultdict(list)
    were = [
        (each, times)
        for each in connections
        if (times := [when for when, was in each.history if was == state and when > now_s - RECENT_S])
    ]
    counted = Counter(each.target for each, _ in were), Counter(each.target for each in connections)
    for each, times in were:
        all_were = counted[0][each.target] == counted[1][each.target]
        found[each.target if all_were else _named(each, connections)] += times
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
    if told := _times(recent([each for each in connections if each.active], SWITCHED, now_s)):
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
    # Of a target that is away for one mount of this node, another's requests only wait longer for that.
    away = {each.target for each in connected.connections if each.active and not each.is_up}
    waiting = [each for each in connected.connections if each.is_silent and each.target not in away]
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
    count, streams = len(osts), _STREAMS_PER_OST * len(osts)
    apart, alike = spread(streams, count, 1, tuple(osts)), spread(streams, count, 1)
    met = met_in_half(streams, osts, 1)
    return (
        f"{streams} streams with new files of one stripe meet {met} of {count} OSTs, and get "
        f"{100 * apart.floor:.0f} % or more of what all OSTs deliver in 95 % of placements, against "
        f"{100 * alike.floor:.0f} % where space is alike"
    )


def _version_findings(connected: Connected) -> Iterator[Finding]:
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


def _management_findings(connected: Connected, source: str) -> Iterator[Finding]:
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


def _unreached_words(connected: Connected) -> str | None:
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


_TARGET = re.compile(r"[\w-]+-(?:OST|MDT)[0-9a-f]{4}")
"""Name of a target, such as `scratch-OST0000`: the file system and the index in hexadecimal digits."""


def health(
    run: Run,
    mount_point: str,
    source: str | None = None,
    *,
    now_s: float | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Health:
    """How the Lustre at `mount_point` is, as this node sees it; `source` is what should be mounted there.

    A node that only serves targets of `source` tells of these. `now_s` is the time in seconds since 1970.
    Never hangs: all is read from the client's memory but space, which is asked of connected targets only.
    Where something does not answer, what was told before is judged, and that it is not all. Raises
    GridwrightError (status ENVIRONMENT) where lctl is not there, and where nothing was told.
    """
    mounts = read_mounts(run)
    mount = client_mount(mount_point, mounts)
    name = file_system_name(mount.source) if mount else file_system_name(source or "")
    if mount is None and not serves(mounts, name):
        return Health(condition=Condition.BROKEN, findings=[_not_mounted(mount_point, mounts)])
    if not is_root(run):
        return Health(condition=Condition.SILENT, findings=[_needs_root()])
    now_s = time.time() if now_s is None else now_s
    told = _Answers(Connected(name, (), None, ()))
    found: list[Finding] = []
    try:
        told.served = read_served(run, name) if serves(mounts, name) else ()
        if mount is not None:
            told.ask_as_client(run, now_s, pause)
    except (TimeUp, CommandSilent) as why:
        if not told.served and not told.connected.connections:
            raise
        found.append(incomplete(why))
    found += served_findings(told.served)
    if mount is None:
        return Health(condition=condition_of(found), findings=gravest_first(found))
    connected, spaces = told.connected, told.spaces
    found += connection_findings(connected, now_s)
    found += space_findings(connected, spaces)
    found += _management_findings(connected, mount.source)
    found += _version_findings(connected)
    if not connected.connections and not any(each.name == INCOMPLETE for each in found):
        found.append(_no_target(mount_point))
    reached = [each for each in connected.connections if each.is_up]
    targets = _targets(connected, spaces)
    osts = [spaces.of[each.name] for each in targets if each.name in spaces.of and "-OST" in each.name]
    return Health(
        condition=condition_of(found) if reached else Condition.SILENT,
        findings=gravest_first(once(found)),
        servers=_servers(connected, spaces),
        targets=targets,
        capacity_bytes=sum(each.total_bytes for each in osts) if osts else None,
        available_bytes=sum(each.available_bytes for each in osts) if osts else None,
    )


@dataclass(slots=True)
class _Answers:
    """The answers of a client, or of a server, so far."""

    connected: Connected
    spaces: Spaces = field(default_factory=Spaces)
    served: Sequence[Served] = ()

    def ask_as_client(self, run: Run, now_s: float, pause: Callable[[float], None]) -> None:
        """Ask for connections, then for what may hang. Raises GridwrightError, TimeUp."""
        self.connected = read_connections(run, self.connected.name, pause)
        if recent(self.connected.connections, EVICTED, now_s):
            self.connected = with_switched(self.connected, _kernel_log(run))
        # A target that recovers answers no question: its server has told that.
        recovering = {each.target for each in self.served if each.recovery in RECOVERY_GOES_ON}
        asked = (each for each in self.connected.connections if each.target not in recovering)
        self.spaces = read_space(run, asked)
        self.connected = with_stalled(run, self.connected, pause, self.spaces.untold)


def unreached(run: Run, mount_point: str) -> str | None:
    """Which targets the client at `mount_point` does not reach, in words; None where it tells of none.

    Takes root. Never hangs, and raises nothing.
    """
    try:
        mount = client_mount(mount_point, read_mounts(run))
        if mount is None or not is_root(run):
            return None
        connected = read_connections(run, file_system_name(mount.source), lambda _: None)
        connected = with_stalled(run, connected, time.sleep)
    except GridwrightError:
        return None
    return _unreached_words(connected)


def copytool_findings(
    run: Run, mount_point: str, source: str | None, archives: Collection[int]
) -> list[Finding]:
    """What the coordinators of HSM on this node say of copytools for these archives; clients know nothing.

    Raises GridwrightError (status ENVIRONMENT) where lctl is not there, or the node does not answer.
    """
    mounts = read_mounts(run)
    mount = client_mount(mount_point, mounts)
    name = file_system_name(mount.source) if mount else file_system_name(source or "")
    if not archives or not serves(mounts, name) or not is_root(run):
        return []
    return list(coordinator_findings(read_coordinators(run, name), archives))


def changelog_findings(
    run: Run, mount_point: str, source: str | None, names: Collection[str]
) -> list[Finding]:
    """What changelogs of MDTs on this node keep; `names` are those of the grid's users of them.

    Raises GridwrightError (status ENVIRONMENT) where lctl is not there, or the node does not answer.
    """
    mounts = read_mounts(run)
    mount = client_mount(mount_point, mounts)
    name = file_system_name(mount.source) if mount else file_system_name(source or "")
    if not serves(mounts, name) or not is_root(run):
        return []
    return list(retention_findings(read_changelogs(run, name), names))


def _targets(connected: Connected, spaces: Spaces) -> list[TargetHealth]:
    """One for each target; of several mounts the connection that is worst off speaks."""
    worst: dict[str, LustreConnection] = {}
    for each in connected.connections:
        before = worst.get(each.target)
        if before is None or not each.is_up or (each.is_silent and before.is_up):
            worst[each.target] = each
    found = []
    for name, each in sorted(worst.items(), key=lambda item: (item[1].kind == "OST", item[0])):
        space = spaces.of.get(name)
        found.append(
            TargetHealth(
                name=name,
                server=each.server,
                up=each.is_up and not each.is_silent,
                state=_state(each),
                capacity_bytes=space.total_bytes if space else None,
                used_bytes=space.used_bytes if space else None,
                last_error=_last_eviction(each),
                inodes=space.inodes if space else None,
                inodes_free=space.inodes_free if space else None,
            )
        )
    return found


def _state(connection: LustreConnection) -> str:
    if not connection.active:
        return "INACTIVE"
    if connection.is_silent:
        return f"{connection.state}, {waits_for(connection)}"
    return connection.state


def _kernel_log(run: Run) -> str:
    try:
        return run(["dmesg"], timeout_s=5.0).stdout.decode(errors="replace")
    except GridwrightError:
        return ""


def _last_eviction(connection: LustreConnection) -> float | None:
    return max((float(when) for when, state in connection.history if state == EVICTED), default=None)


def _servers(connected: Connected, spaces: Spaces) -> list[Server]:
    found = []
    for nid in sorted({each.server for each in connected.connections if each.server}):
        mine = {each.target: each for each in connected.connections if each.server == nid}
        up = [target for target, each in mine.items() if each.is_up]
        known = [spaces.of[target] for target in mine if target in spaces.of and "-OST" in target]
        found.append(
            Server(
                name=nid,
                up=bool(up),
                state=f"{len(up)} of {len(mine)} targets connected",
                capacity_bytes=sum(each.total_bytes for each in known) if known else None,
                used_bytes=sum(each.used_bytes for each in known) if known else None,
            )
        )
    return found


def once(findings: Sequence[Finding]) -> list[Finding]:
    """Of a fault that server and client both tell, the server's words, which come first.

    A server knows its own targets alone: what the client tells of others stays.
    """
    told: dict[str, set[str]] = {}
    found = []
    for each in findings:
        targets = set(_TARGET.findall(each.text))
        if each.name in told and targets <= told[each.name]:
            continue
        told.setdefault(each.name, set()).update(targets)
        found.append(each)
    return found


def _not_mounted(mount_point: str, mounts: Sequence[Mount]) -> Finding:
    there = mount_of(mount_point, mounts)
    what = f"there is {there.type} of {there.source}" if there else "nothing is mounted there"
    return Finding(
        "error",
        "filesystem-not-mounted",
        f"no Lustre is mounted at {mount_point}: {what}",
        f"mount {mount_point}; with a wrong server address that takes about 160 s and ends with "
        "Connection timed out",
    )


def _needs_root() -> Finding:
    return Finding(
        "warning",
        "lustre-needs-root",
        "connections and counters of Lustre are told to root only; to others lctl prints wrong figures "
        "without a word, so none were read",
        "Run it as root (sudo)",
    )


def _no_target(mount_point: str) -> Finding:
    return Finding(
        "error",
        "target-away",
        f"the client at {mount_point} knows no target",
        "See dmesg, and whether lctl is of the release of the kernel modules",
    )


LIMIT_S = 5.0
"""For `lfs df`, which waits for a target that is away."""
_ROW = re.compile(
    r"^(?P<target>\S+-OST(?P<index>[0-9a-f]{4}))_UUID\s+(?P<total>\d{1,20})\s+\d{1,20}\s+(?P<left>\d{1,20})\s",
    re.MULTILINE,
)


def no_space(run: Run, mount_point: str, path: str) -> str | None:
    """Which targets of a file are full, how full, and its layout; None where that is not what was wrong.

    Needs no root: both questions are anybody's. Never raises for what the file system does not tell.
    """
    try:
        told = run(["lfs", "df", mount_point], timeout_s=LIMIT_S).stdout.decode(errors="replace")
    except GridwrightError:
        return None
    rows = {int(row["index"], 16): row for row in _ROW.finditer(told)}
    try:
        layout = read_layout(run, path)
        lies_on = {ost for each in layout.components for ost in each.osts}
    except GridwrightError:
        lies_on = set()
    own = {index: row for index, row in rows.items() if not lies_on or index in lies_on}
    full = {index: row for index, row in own.items() if int(row["left"]) < NOTHING * int(row["total"])}
    if not full and not (lies_on and own):
        return None
    # A target refuses writes before it is full: of what is left, other clients have been promised a part.
    fullest = full or dict([min(own.items(), key=lambda each: int(each[1]["left"]) / int(each[1]["total"]))])
    words = [
        f"{row['target']} ({format_bytes(int(row['left']) * 1024)} left of "
        f"{format_bytes(int(row['total']) * 1024)})"
        for row in fullest.values()
    ]
    left = sum(int(row["left"]) for row in rows.values()) * 1024
    what = "full" if full else "the fullest, whose room may be promised to other clients (grants)"
    return (
        f"{what}: {listed(words)}, while all targets together have {format_bytes(left)}"
        f"{_layout_words(rows, lies_on)}"
    )


def _layout_words(rows: dict[int, re.Match[str]], lies_on: set[int]) -> str:
    if not lies_on:
        return ""
    names = [rows[index]["target"] if index in rows else f"OST{index:04x}" for index in sorted(lies_on)]
    return f"; the file lies on {len(names)} {'target' if len(names) == 1 else 'targets'}: {listed(names)}"
