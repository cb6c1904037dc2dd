"""Connections of a client to the targets of a Lustre: its imports, which show what it really reaches.

`lctl dl` says UP, `lfs osts` says ACTIVE and `health_check` says healthy while a server is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters
from gridwright.filesystems.lustre_client.stats import parse_stats

Kind = Literal["OST", "MDT"]

CONNECTED = frozenset({"FULL", "IDLE"})
"""A client closes a connection that it has not used for 20 s (osc.*.idle_timeout) and calls it IDLE."""
PASSING = frozenset({"NEW", "CONNECTING", "RECOVER", "REPLAY_WAIT", "EVICTED"})
"""States that last a moment where all is well: looked at twice before they count."""
RECOVERING = frozenset({"REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER"})
SILENT_S = 5
"""The least time-out of a request (at_min): a server that works has answered something by then."""
LOOKS_S = (0.5, 1.5, 3.0)
"""Pauses between looks at reads and writes that wait; together SILENT_S."""
SETTLE_S = 2.0
"""A connection to a server that is there stands in less than this."""
_DEVICE = re.compile(
    r"(?:osc|mdc)\.(?P<device>(?P<target>[^.]+-(?P<kind>OST|MDT)[0-9a-f]{4})-(?:osc|mdc)-(?!MDT)[^.]+)\."
)
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
    unanswered_s: int = 0
    """Seconds since its last reply, whether it was asked for anything or not."""
    timeouts: int = 0
    """Requests that have timed out since the mount."""
    stalled_s: float = 0.0
    """For how long reads or writes were seen on the way to it while none came back."""

    @property
    def is_up(self) -> bool:
        """Whether what it is asked for is answered."""
        return self.active and self.state in CONNECTED

    @property
    def is_silent(self) -> bool:
        """Whether requests wait at it and nothing comes back, though it counts as connected.

        A client changes the state only at its first time-out, 8 to 25 s after a server fell silent. A ping or
        a question for space that is answered sets back the time since the last reply, though reads and writes
        wait.
        """
        return self.is_up and self.waiting > 0 and max(self.unanswered_s, self.stalled_s) >= SILENT_S


@dataclass(frozen=True, slots=True)
class Connected:
    """What a client says of a file system."""

    name: str
    """The file system's name, such as `scratch`."""
    connections: tuple[LustreConnection, ...]
    client_version: str | None
    management: tuple[tuple[str, str], ...]
    """NID and state of connections to management servers."""


def wanted(name: str) -> tuple[str, ...]:
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
    found = parse_connections(read_parameters(run, wanted(name)), name)
    if any(each.active and each.state in PASSING for each in found.connections):
        pause(SETTLE_S)
        found = parse_connections(read_parameters(run, wanted(name)), name)
    return found


def with_stalled(run: Run, connected: Connected, pause: Callable[[float], None]) -> Connected:
    """The same with how long reads and writes wait at OSTs where none of them ends, SILENT_S at most.

    Returns at once where no request is on the way, and as soon as each OST has answered one.
    Raises GridwrightError (status ENVIRONMENT) where lctl does not answer.
    """
    stalled = {
        each.device: 0.0
        for each in connected.connections
        if each.kind == "OST" and each.is_up and each.waiting and not each.is_silent
    }
    before = _transfers(run, stalled)
    for seconds in LOOKS_S:
        if not any(on_the_way for on_the_way, _ in before.values()):
            break
        pause(seconds)
        now = _transfers(run, before)
        before = {
            device: now[device]
            for device, (on_the_way, ended) in before.items()
            if on_the_way and device in now and now[device][0] and now[device][1] == ended
        }
        stalled |= {device: stalled[device] + seconds for device in before}
    return replace(
        connected,
        connections=tuple(
            replace(each, stalled_s=stalled[each.device]) if stalled.get(each.device) else each
            for each in connected.connections
        ),
    )


def _transfers(run: Run, devices: Collection[str]) -> dict[str, tuple[int, float]]:
    """By connection, the reads and writes that are on the way, and how many have ended since the mount."""
    if not devices:
        return {}
    names = [f"osc.{device}.{part}" for device in devices for part in ("rpc_stats", "stats")]
    told = read_parameters(run, names)
    found: dict[str, tuple[int, float]] = {}
    for device in devices:
        on_the_way = re.findall(
            r"^(?:read|write) RPCs in flight:\s*(\d{1,9})$",
            told.values.get(f"osc.{device}.rpc_stats", ""),
            re.MULTILINE,
        )
        stats = parse_stats(told.values.get(f"osc.{device}.stats", ""))
        found[device] = sum(map(int, on_the_way)), stats.samples("read_bytes") + stats.samples("write_bytes")
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
        waiting=_number(r"^\s*inflight:\s*(\d{1,9})\s*$", imported),
        unanswered_s=_number(r"^\s*idle:\s*(\d{1,9}) sec", imported),
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
