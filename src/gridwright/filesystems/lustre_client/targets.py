"""Lustre's targets as clients and servers tell of them: space, inodes, state flags, recovery, arrays.

`lfs df` asks all and hangs with the first that is gone; `lfs df -l` leaves it out of its sum: so a client
asks those that are connected only. Free space of OSTs out of `lfs df` needs no root.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.filesystems.allocation import TargetSpace
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.connections import LustreConnection
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters

_KIB = 1024
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
        total * _KIB,
        min(free, total) * _KIB,
        min(available, total) * _KIB,
        told.number(f"{device}.filestotal"),
        told.number(f"{device}.filesfree"),
        tuple(word for letter, word in FLAGS.items() if letter in letters),
    )


LIMIT_S = 10.0
"""`lfs df` waits for a target that is gone; those that are up answer within milliseconds."""
_ROW = re.compile(
    r"(?P<name>\S+)_UUID\s+(?P<total>\d+)\s+\d+\s+(?P<available>\d+)\s+\S+\s+(?P<mounted>.+)"
    r"\[OST:\d+\]\s*(?P<flags>\S*)\s*",
    re.ASCII,
)
_AWAY = re.compile(r"(?P<name>OST[0-9a-f]+)\s*: (?P<why>.+)", re.ASCII)


def parse_lfs_df(text: str) -> dict[str, tuple[TargetSpace, ...]]:
    """Every OST by the mount point of its file system; one that is named as away takes no new files.

    Without `-h` and `-i`: lines in other units are passed over.
    """
    found: dict[str, tuple[TargetSpace, ...]] = {}
    for block in re.split(r"^UUID\b", text, flags=re.MULTILINE)[1:]:
        if block.split(maxsplit=1)[:1] != ["1K-blocks"]:
            continue
        rows: list[TargetSpace] = []
        mounted = ""
        for line in block.splitlines()[1:]:
            if row := _ROW.fullmatch(line):
                mounted = row["mounted"]
                rows.append(
                    TargetSpace(
                        row["name"],
                        int(row["available"]) * _KIB,
                        int(row["total"]) * _KIB,
                        takes_files=not set(row["flags"]) & set(FLAGS),
                    )
                )
            elif away := _AWAY.fullmatch(line):
                rows.append(TargetSpace(away["name"], 0, 0, takes_files=False))
        if mounted:
            found[mounted] = tuple(rows)
    return found


def parse_target_space(text: str, where: str) -> Mapping[str, tuple[TargetSpace, ...]]:
    """The same of a file. Raises GridwrightError (status INPUT) where it names no OST."""
    found = parse_lfs_df(text)
    if not found:
        raise input_error(
            "it has no free space of OSTs",
            where=where,
            remedy="save what `lfs df PATH` prints, without -h and -i, of a node that has it mounted",
        )
    return found


def target_space(run: Run, mount_point: str) -> tuple[TargetSpace, ...]:
    """The OSTs of the Lustre at a mount point, now.

    Raises GridwrightError (status ENVIRONMENT) where it is not mounted there or does not answer in time.
    """
    answer = run(["lfs", "df", mount_point], timeout_s=LIMIT_S)
    found = parse_lfs_df(answer.stdout.decode(errors="replace"))
    if answer.status != 0 or not found:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        raise environment_error(
            f"lfs df tells no free space of {mount_point}: {said[-1][:200] if said else 'it names no OST'}",
            where=mount_point,
            remedy="see whether it is mounted, and gridwright doctor for targets that are away",
        )
    return next(iter(found.values()))


RECOVERY_GOES_ON = frozenset({"RECOVERING", "WAITING", "WAITING_FOR_CLIENTS"})
"""Words of recovery_status while requests wait; INACTIVE is none since the start, COMPLETE is over."""


@dataclass(frozen=True, slots=True)
class Served:
    """A target as its server sees it."""

    target: str
    recovery: str
    """Word of recovery_status, such as COMPLETE; empty where it is not told."""
    recovery_left_s: int | None
    clients: str
    """How many of the clients are back, such as `0/1`; empty where it is not told."""
    flags: tuple[str, ...]
    """Such as `degraded`."""


def parameter_names(name: str) -> tuple[str, ...]:
    """The parameters that tell of the targets of file system `name` on a server."""
    flags = (f"obdfilter.{name}-OST*.{flag}" for flag in _FLAGS)
    allocation = (f"osp.{name}-OST*-osc-MDT*.{part}" for part in ("active", "max_create_count"))
    return (*flags, *allocation, f"obdfilter.{name}-OST*.recovery_status", f"mdt.{name}-MDT*.recovery_status")


def read_served(run: Run, name: str) -> list[Served]:
    """The targets of file system `name` that this node serves; none where it is no server.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    return parse_served(read_parameters(run, parameter_names(name)))


_FLAGS: Mapping[str, str] = {
    "degraded": "degraded",
    "readonly": "read-only",
    "no_create": "takes no new files",
}


def parse_served(told: Parameters) -> list[Served]:
    """The targets out of what was read."""
    found = []
    for name, status in told.values.items():
        device = re.fullmatch(r"((?:obdfilter|mdt)\.([^.]+))\.recovery_status", name)
        if device is None:
            continue
        flags = tuple(word for flag, word in _FLAGS.items() if told.text(f"{device[1]}.{flag}") == "1")
        left = re.search(r"^time_remaining:\s*(\d{1,9})", status, re.MULTILINE)
        clients = re.search(r"^(?:connected|completed)_clients:\s*(\d+/\d+)", status, re.MULTILINE)
        word = re.search(r"^\s*status:\s*([A-Z_]+)", status, re.MULTILINE)
        found.append(
            Served(
                device[2],
                word[1] if word else "",
                int(left[1]) if left else None,
                clients[1] if clients else "",
                flags,
            )
        )
    return sorted([*found, *_allocated(told)], key=lambda each: each.target)


def _allocated(told: Parameters) -> Iterator[Served]:
    """OSTs on which the MDS of this node places no files, by an administrator's word."""
    words = {"active": "deactivated on its MDS", "max_create_count": "max_create_count=0"}
    flags: dict[str, set[str]] = {}
    for name in told.values:
        device = re.fullmatch(
            r"osp\.([^.]+-OST[0-9a-f]{4})-osc-MDT[0-9a-f]{4}\.(active|max_create_count)", name
        )
        if device is not None and told.text(name) == "0":
            flags.setdefault(device[1], set()).add(words[device[2]])
    for target, there in flags.items():
        yield Served(target, "", None, "", tuple(sorted(there)))
