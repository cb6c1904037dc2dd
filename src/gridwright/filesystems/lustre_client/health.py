"""The health of a Lustre, as a client or a server of it sees it, looked up in bounded time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gridwright.commands import CommandSilent
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.health import (
    INCOMPLETE,
    Condition,
    Health,
    Run,
    Server,
    TargetHealth,
    TimeUp,
    incomplete,
)
from gridwright.filesystems.lustre_client.changelogs import read_changelogs, retention_findings
from gridwright.filesystems.lustre_client.connections import (
    EVICTED,
    Connected,
    LustreConnection,
    read_connections,
    with_stalled,
    with_switched,
)
from gridwright.filesystems.lustre_client.coordinators import coordinator_findings, read_coordinators
from gridwright.filesystems.lustre_client.findings import (
    connection_findings,
    management_findings,
    recent,
    served_findings,
    space_findings,
    unreached_words,
    version_findings,
    waits_for,
)
from gridwright.filesystems.lustre_client.mounts import client_mount, file_system_name, serves
from gridwright.filesystems.lustre_client.parameters import is_root
from gridwright.filesystems.lustre_client.servers import RECOVERY_GOES_ON, Served, read_served
from gridwright.filesystems.lustre_client.space import Spaces, read_space
from gridwright.filesystems.mount_table import Mount, mount_of, read_mounts

_ORDER = ("error", "warning", "info")
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
        return Health(condition=_condition(found), findings=_sorted(found))
    connected, spaces = told.connected, told.spaces
    found += connection_findings(connected, now_s)
    found += space_findings(connected, spaces)
    found += management_findings(connected, mount.source)
    found += version_findings(connected)
    if not connected.connections and not any(each.name == INCOMPLETE for each in found):
        found.append(_no_target(mount_point))
    reached = [each for each in connected.connections if each.is_up]
    targets = _targets(connected, spaces)
    osts = [spaces.of[each.name] for each in targets if each.name in spaces.of and "-OST" in each.name]
    return Health(
        condition=_condition(found) if reached else Condition.SILENT,
        findings=_sorted(once(found)),
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
    return unreached_words(connected)


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


def _condition(findings: Sequence[Finding]) -> Condition:
    levels = {each.level for each in findings}
    if "error" in levels:
        return Condition.BROKEN
    return Condition.DEGRADED if "warning" in levels else Condition.HEALTHY


def _sorted(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: _ORDER.index(each.level))


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
