"""Connections of a client to the targets of a Lustre: its imports, which show what it really reaches.

`lctl dl` says UP, `lfs osts` says ACTIVE and `health_check` says healthy while a server is gone.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import Parameters, parse_stats, read_parameters

Kind = Literal["OST", "MDT"]

CONNECTED = frozenset({"FULL", "IDLE"})
"""A client closes a connection that it has not used for 20 s (osc.*.idle_timeout) and calls it IDLE."""
PASSING = frozenset({"NEW", "CONNECTING", "RECOVER", "REPLAY_WAIT", "EVICTED"})
"""States that last a moment where all is well: looked at twice before they count."""
RECOVERING = frozenset({"REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER"})
SILENT_S = 5
"""The least time-out of a request (at_min): a server that works has answered something by then."""
EVICTED, SWITCHED = "EVICTED", "SWITCHED"
"""In a history: the server gave up this client, or an administrator switched the target off and on here."""
LOOKS_S = (0.5, 1.5, 3.0)
"""Pauses between looks at requests that wait; together SILENT_S."""
SETTLE_S = 2.0
"""A connection to a server that is there stands in less than this."""
_DEVICE = re.compile(
    r"(?:osc|mdc)\.(?P<device>(?P<target>[^.]+-(?P<kind>OST|MDT)[0-9a-f]{4})-(?:osc|mdc)-(?!MDT)[^.]+)\."
)
_KERNEL_LOG = re.compile(
    r"^(?:\[\s*(?P<s>[0-9.]+)\])?.*?"
    r"(?:setting import (?P<off>\S+)_UUID INACTIVE by administrator request"
    r"|(?P<refused>[^\s:]+): operation \S+ to node \S+ failed: rc = -107"
    r"|(?P<device>[^\s:]+): This client was evicted by (?P<target>[^\s;,]+))"
)
"""ptlrpc_set_import_active(), ptlrpc_check_status() (ENOTCONN), ptlrpc_import_recovery_state_machine() of
lustre/ptlrpc; dmesg(1) prints the seconds since the boot first."""
_IN_FLIGHT = r"^\s*inflight:\s*(\d{1,9})\s*$"
_IDLE = r"^\s*idle:\s*(\d{1,9}) sec"
_TRANSFERS = re.compile(r"^(?:read|write) RPCs in flight:\s*(\d{1,9})$", re.MULTILINE)
_HISTORY = re.compile(r"-\s*\[\s*(\d{1,12}),\s*([A-Z_]+)\s*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreConnection:
    """A client's connection to one target."""

    device: str
    """Such as `scratch-OST0000-osc-ffff8e4fab1e5000`."""
    target: str
    """Such as `scratch-OST0000`."""
    kind: Kind
    state: str
    """In Lustre's word, such as FULL; empty where it is not told."""
    server: str
    """The NID that it talks to, or tries to; empty where it is not told."""
    version: str | None
    """Release of the server, such as 2.17.0.0."""
    active: bool
    """Whether an administrator (or the configuration) left it on."""
    history: tuple[tuple[int, str], ...] = ()
    """Seconds since 1970 and state, the last 16."""
    waiting: int = 0
    """Requests on the way to it."""
    unanswered_s: float = 0.0
    """Seconds since its last reply, whether it was asked for anything or not."""
    timeouts: int = 0
    """Requests that have timed out since the mount."""
    stalled_s: float = 0.0
    """For how long requests, or reads and writes alone, were seen on the way to it while none came back."""

    @property
    def is_up(self) -> bool:
        """Whether what it is asked for is answered."""
        return self.active and self.state in CONNECTED

    @property
    def seems_silent(self) -> bool:
        """Whether one reading looks like silence, as it does where an idle target was asked a moment ago."""
        return self.is_up and self.waiting > 0 and self.unanswered_s >= SILENT_S

    @property
    def is_silent(self) -> bool:
        """Whether requests wait at it and nothing comes back, though it counts as connected.

        A client changes the state only at its first time-out, 8 to 25 s after a server fell silent.
        """
        return self.is_up and self.stalled_s >= SILENT_S


@dataclass(frozen=True, slots=True)
class Connected:
    """What a client says of a file system."""

    name: str
    """The file system's name, such as `scratch`."""
    connections: tuple[LustreConnection, ...]
    client_version: str | None
    management: tuple[tuple[str, str], ...]
    """NID and state of connections to management servers."""


def parameter_names(name: str) -> tuple[str, ...]:
    """The parameters that tell of the connections of file system `name`."""
    # [!M] leaves out the MDT's own connections (-osc-MDT0000) on a node that is a server, too.
    devices = (f"osc.{name}-OST*-osc-[!M]*", f"mdc.{name}-MDT*-mdc-[!M]*")
    return (
        "version",
        *(f"{device}.{part}" for device in devices for part in ("import", "state", "active")),
        f"lov.{name}-clilov-*.target_obd",
        f"lmv.{name}-clilmv-*.target_obd",
        "mgc.*.import",
    )


def read_connections(run: Run, name: str, pause: Callable[[float], None]) -> Connected:
    """Ask for all connections of file system `name`, a second time where one is just being made.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    found = parse_connections(read_parameters(run, parameter_names(name)), name)
    if any(each.active and each.state in PASSING for each in found.connections):
        pause(SETTLE_S)
        found = parse_connections(read_parameters(run, parameter_names(name)), name)
    return found


def with_stalled(
    run: Run,
    connected: Connected,
    pause: Callable[[float], None],
    untold: Collection[str] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Connected:
    """The same with how long requests wait at targets where none of them ends, SILENT_S at most.

    Looks at those that requests were on the way to, and at the `untold`: targets that were asked for their
    space, and have not told it. A ping or such a question that is answered sets back the time since the last
    reply, though reads and writes wait: these count for themselves. Returns as soon as each has answered.
    Raises GridwrightError (status ENVIRONMENT) where lctl does not answer.
    """
    looked_at = {
        each.device: each
        for each in connected.connections
        if each.is_up and (each.waiting or each.target in untold)
    }
    stalled = dict.fromkeys(looked_at, 0.0)
    before, began = _on_the_way(run, looked_at.values()), clock()
    for seconds in LOOKS_S:
        if not before:
            break
        pause(seconds)
        elapsed = int(clock() - began)
        now = _on_the_way(run, [looked_at[device] for device in {device for device, _ in before}])
        before = {
            of: waits
            for of, waits in now.items()
            if of in before and waits.ended == before[of].ended and waits.since_s >= elapsed
        }
        for device in {device for device, _ in before}:
            stalled[device] += seconds

    def seen(each: LustreConnection) -> LustreConnection:
        requests = before.get((each.device, "requests"))
        return replace(
            each,
            stalled_s=stalled[each.device],
            unanswered_s=requests.since_s if requests else 0.0,
            waiting=max(each.waiting, 1 if stalled[each.device] else 0),
        )

    return replace(
        connected,
        connections=tuple(seen(each) if each.device in looked_at else each for each in connected.connections),
    )


def with_switched(connected: Connected, kernel_log: str) -> Connected:
    """The same, where evictions of targets that were switched off and on here before are SWITCHED.

    A history does not tell one from the other; the log of the kernel does, as far as it goes back.
    """
    logged: dict[str, list[Eviction]] = defaultdict(list)
    for eviction in evictions(kernel_log.splitlines()):
        logged[eviction.device].append(eviction)

    def history(each: LustreConnection) -> tuple[tuple[int, str], ...]:
        last_first = reversed(logged[each.device])
        return tuple(
            (when, SWITCHED if state == EVICTED and _by_switch(next(last_first, None), when, each) else state)
            for when, state in reversed(each.history)
        )[::-1]

    return replace(
        connected, connections=tuple(replace(each, history=history(each)) for each in connected.connections)
    )


class Eviction(NamedTuple):
    """A line of the kernel's log in which a client says that it was evicted."""

    number: int
    """Of the line, from 0."""
    device: str
    since_off_s: float | None
    """How long before an administrator had switched the target off here, which then evicted nobody; 0 where
    the lines have no times, and None where no switch explains it."""


def _by_switch(eviction: Eviction | None, when: int, connection: LustreConnection) -> bool:
    """Whether an eviction comes of a switch: a connection that was made since then was lost otherwise.

    One that was idle when it was switched off comes back without an eviction (seen with 2.17.0).
    """
    if eviction is None or eviction.since_off_s is None:
        return False
    off = when - eviction.since_off_s
    return not any(state == "FULL" and off + 1 <= at < when for at, state in connection.history)


def evictions(lines: Iterable[str]) -> Iterator[Eviction]:
    """The evictions of a kernel's log, in its order.

    A switch explains one eviction, the first after it; none of a connection whose request the server refused
    before, since it knew the client no more.
    """
    off: dict[str, list[float]] = defaultdict(list)
    refused: set[str] = set()
    for number, line in enumerate(lines):
        found = _KERNEL_LOG.search(line)
        if found is None:
            continue
        at = float(found["s"] or 0.0)
        if found["off"]:
            off[found["off"]].append(at)
        elif found["refused"]:
            refused.add(found["refused"])
        elif found["device"] in refused or not off[found["target"]]:
            refused.discard(found["device"])
            yield Eviction(number, found["device"], None)
        else:
            yield Eviction(number, found["device"], at - off[found["target"]].pop())


class _Waits(NamedTuple):
    """What is on the way on a connection: how much of it has ended since the mount, and when the last did."""

    ended: float
    """0 of requests of all kinds, of which only the time is told."""
    since_s: float
    """Seconds since the last reply; of reads and writes, of which no time is told, infinite."""


def _on_the_way(run: Run, connections: Collection[LustreConnection]) -> dict[tuple[str, str], _Waits]:
    """By device and `requests` or `transfers`, those that are on the way; no row where none is."""
    if not connections:
        return {}
    layers = {each.device: "osc" if each.kind == "OST" else "mdc" for each in connections}
    names = [
        f"{layer}.{device}.{part}"
        for device, layer in layers.items()
        for part in ("import", *(("rpc_stats", "stats") if layer == "osc" else ()))
    ]
    told = read_parameters(run, names)
    found: dict[tuple[str, str], _Waits] = {}
    for device, layer in layers.items():
        imported, transfers, stats = (
            told.values.get(f"{layer}.{device}.{part}", "") for part in ("import", "rpc_stats", "stats")
        )
        if _number(_IN_FLIGHT, imported):
            found[device, "requests"] = _Waits(0, _number(_IDLE, imported))
        if any(map(int, _TRANSFERS.findall(transfers))):
            counted = parse_stats(stats)
            ended = counted.samples("read_bytes") + counted.samples("write_bytes")
            found[device, "transfers"] = _Waits(ended, math.inf)
    return found


def parse_connections(parameters: Parameters, name: str) -> Connected:
    """The connections out of what was read; several mounts of one file system have several."""
    found: dict[str, LustreConnection] = {}
    for parameter in parameters.values:
        device = _DEVICE.match(parameter)
        if device and device["target"].startswith(f"{name}-") and device["device"] not in found:
            found[device["device"]] = _connection(parameters, parameter.partition(".")[0], device)
    _put_inactive(parameters, name, found)
    return Connected(
        name,
        tuple(found[each] for each in sorted(found)),
        parameters.text("version") or None,
        tuple(_management(parameters)),
    )


def _connection(parameters: Parameters, layer: str, device: re.Match[str]) -> LustreConnection:
    prefix = f"{layer}.{device['device']}"
    imported = parameters.values.get(f"{prefix}.import", "")
    state = parameters.values.get(f"{prefix}.state", "")
    return LustreConnection(
        device=device["device"],
        target=device["target"],
        kind="OST" if device["kind"] == "OST" else "MDT",
        state=_first(r"^\s*state:\s*([A-Z_]+)", imported) or _first(r"^current_state:\s*([A-Z_]+)", state),
        server=_first(r"^\s*current_connection:\s*\"?([^\"\s]+)", imported),
        version=_first(r"^\s*target_version:\s*([0-9.]+)", imported) or None,
        active=parameters.text(f"{prefix}.active") != "0",
        history=tuple((int(when), what) for when, what in _HISTORY.findall(state)),
        waiting=_number(_IN_FLIGHT, imported),
        unanswered_s=_number(_IDLE, imported),
        timeouts=_number(r"^\s*timeouts:\s*(\d{1,9})\s*$", imported),
    )


def _put_inactive(parameters: Parameters, name: str, found: dict[str, LustreConnection]) -> None:
    """Add what only the list of targets tells: those that are switched off.

    Of a connection the list is not always right: one that was idle when it was switched off and on again is
    INACTIVE there until it is used, and works.
    """
    for layer, kind in (("lov", "OST"), ("lmv", "MDT")):
        for _, value in parameters.matching(f"{layer}.{name}-*.target_obd"):
            for target, word in re.findall(r"^\s*\d+:\s*(\S+?)_UUID\s+(\S+)", value, re.MULTILINE):
                if not any(each.target == target for each in found.values()):
                    found[target] = LustreConnection(
                        device=target,
                        target=target,
                        kind="OST" if kind == "OST" else "MDT",
                        state="",
                        server="",
                        version=None,
                        active=word != "INACTIVE",
                    )


def _management(parameters: Parameters) -> list[tuple[str, str]]:
    return [
        (parameter.removeprefix("mgc.MGC").removesuffix(".import"), _first(r"^\s*state:\s*([A-Z_]+)", value))
        for parameter, value in parameters.matching("mgc.MGC*.import")
    ]


def _number(pattern: str, text: str) -> int:
    return int(_first(pattern, text) or 0)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""
