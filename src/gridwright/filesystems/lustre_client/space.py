"""Space, inodes and state flags of Lustre targets, asked of those that are connected only.

`lfs df` asks all and hangs with the first that is gone; `lfs df -l` leaves it out of its sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.connections import LustreConnection
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters

KIB = 1024
_PARTS = ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree", "statfs_state")
BUDGET_S = 3.0
"""For all targets together. With the pause before a second look (SETTLE_S) it stays within what the doctor
gives to a file system: what takes longer names no target."""
_ALL_S = 1.0
"""For the space of all targets: they answer within milliseconds."""
_ONE_S = 0.8
"""For the space of one target, where another one hangs."""
_SIDE_BY_SIDE = 8
"""Targets asked at the same time then: an ssh server lets in ten at once."""
_AT_ONCE = 200
"""Targets asked for in one command: names of more do not fit what ssh passes on."""
FLAGS: Mapping[str, str] = {
    "D": "degraded",
    "R": "read-only",
    "N": "takes no new files",
    "S": "out of space",
    "I": "out of inodes",
}
"""What the letters of statfs_state mean (obd_statfs_state_names in lustre_user.h); others are no fault."""


@dataclass(frozen=True, slots=True)
class Space:
    """What a target says of itself. Sizes in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int
    """Less than free: some is kept for root and for what clients have been promised."""
    inodes: int | None
    inodes_free: int | None
    flags: tuple[str, ...] = ()
    """Such as `degraded`."""

    @property
    def used_bytes(self) -> int:
        """What is in use."""
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class Spaces:
    """Space by target; `untold` are those that are connected and did not tell it in time, whyever."""

    of: Mapping[str, Space] = field(default_factory=dict)
    untold: tuple[str, ...] = ()


def read_space(
    run: Run, connections: Iterable[LustreConnection], clock: Callable[[], float] = time.monotonic
) -> Spaces:
    """Ask every connected target for its space, within BUDGET_S; a question that hangs stays on the way.

    Those that seem silent are not asked: the question would wait, too.
    """
    up = {each.target: each for each in connections if each.is_up and not each.seems_silent}
    devices = {
        target: f"{'osc' if each.kind == 'OST' else 'mdc'}.{each.device}" for target, each in up.items()
    }
    told, unasked = _ask(run, list(devices.values()), clock)
    spaces = {
        target: space
        for target, device in devices.items()
        if (space := _space(Parameters(told), device)) is not None
    }
    untold = (target for target in sorted(up) if target not in spaces and devices[target] not in unasked)
    return Spaces(spaces, tuple(untold))


def _ask(run: Run, devices: list[str], clock: Callable[[], float]) -> tuple[dict[str, str], set[str]]:
    """All in one command; where one hangs, which hides the others, each by itself, some at a time.

    What was told, and which devices there was no time for.
    """
    found: dict[str, str] = {}
    deadline = clock() + BUDGET_S
    alone: list[str] = []
    for start in range(0, len(devices), _AT_ONCE):
        group = devices[start : start + _AT_ONCE]
        # Once a command has hung, the time that is left is for finding out at whom.
        answer = _parameters(run, group, _ALL_S) if not alone and clock() + _ONE_S < deadline else None
        found |= answer or {}
        alone += [] if answer is not None else group
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
        while alone and clock() < deadline:
            some, alone = alone[:_SIDE_BY_SIDE], alone[_SIDE_BY_SIDE:]
            for answer in threads.map(lambda device: _parameters(run, [device], _ONE_S), some):
                found |= answer or {}
    return found, set(alone)


def _parameters(run: Run, devices: Sequence[str], seconds: float) -> Mapping[str, str] | None:
    """What a command says of these; None where it hangs."""
    names = [f"{device}.{part}" for device in devices for part in _PARTS]
    try:
        return read_parameters(run, names, timeout_s=seconds).values
    except GridwrightError:
        return None


def _space(told: Parameters, device: str) -> Space | None:
    total, free, available = (told.number(f"{device}.{part}") for part in _PARTS[:3])
    if not total or free is None or available is None:
        return None
    letters = told.text(f"{device}.statfs_state") or ""
    return Space(
        total * KIB,
        min(free, total) * KIB,
        min(available, total) * KIB,
        told.number(f"{device}.filestotal"),
        told.number(f"{device}.filesfree"),
        tuple(word for letter, word in FLAGS.items() if letter in letters),
    )
