"""Space, inodes and state flags of Lustre targets, asked of those that are connected only.

`lfs df` asks all and hangs with the first that is gone; `lfs df -l` leaves it out of its sum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.connections import LustreConnection
from gridwright.filesystems.lustre_client.parameters import LIMIT_S, Parameters, read_parameters

KIB = 1024
_PARTS = ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree", "statfs_state")
_ONE_S = 2.0
"""For the space of one target, where another one hangs."""
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
    """Space by target; `silent` are those that are connected and did not tell."""

    of: Mapping[str, Space] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


def read_space(run: Run, connections: Iterable[LustreConnection]) -> Spaces:
    """Ask every connected target for its space; one that does not answer in time is silent."""
    up = {each.target: each for each in connections if each.is_up}
    devices = [f"{'osc' if each.kind == 'OST' else 'mdc'}.{each.device}" for each in up.values()]
    told = Parameters(_ask(run, devices))
    spaces = {
        target: space
        for (target, _), device in zip(up.items(), devices, strict=True)
        if (space := _space(told, device)) is not None
    }
    return Spaces(spaces, tuple(target for target in sorted(up) if target not in spaces))


def _ask(run: Run, devices: list[str]) -> dict[str, str]:
    """All in one command; where one hangs, which hides the others, one by one as long as there is time."""
    found: dict[str, str] = {}
    deadline = math.inf
    groups = [devices[start : start + _AT_ONCE] for start in range(0, len(devices), _AT_ONCE)]
    while groups and time.monotonic() < deadline:
        group = groups.pop(0)
        names = [f"{device}.{part}" for device in group for part in _PARTS]
        try:
            found |= read_parameters(run, names, timeout_s=LIMIT_S if len(group) > 1 else _ONE_S).values
        except GridwrightError:
            deadline = min(deadline, time.monotonic() + LIMIT_S)
            groups += [[device] for device in group] if len(group) > 1 else []
    return found


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
