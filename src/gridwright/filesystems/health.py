"""The health of a file system, the same for every kind: servers, targets, free space, and what is wrong."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gridwright.commands import CommandOutput, CommandSilent
from gridwright.errors import GRAVEST_FIRST, Finding, GridwrightError
from gridwright.units import format_bytes

UNREACHED = frozenset(
    {errno.EIO, errno.ENODEV, errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EAGAIN}
)
"""What calls on a file system fail with where a server of it is gone; EAGAIN while a client connects."""
UNREACHED_TEXTS = frozenset(map(os.strerror, UNREACHED))


class Run(Protocol):
    """Runs a command on a node of the file system, such as the `run` of a head node.

    Raises GridwrightError (status ENVIRONMENT) where it cannot be started or has not ended in time.
    """

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        """Run it."""


LATE_S = 4.0
"""From the end of the time for asking: the longest pause between two readings, and the death of a command."""


class TimeUp(Exception):
    """The time for asking a file system is over: what was asked last is not known to be silent."""


@dataclass(frozen=True, slots=True)
class RunWithin:
    """Runs commands by another Run, all together within a time."""

    run: Run
    end_s: float
    """By time.monotonic()."""

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        """Run it. Raises TimeUp where the time of all is over before its own is."""
        left = self.end_s - time.monotonic()
        if left <= 0:
            raise TimeUp(f"no time was left for {command[0]}")
        try:
            return self.run(command, timeout_s=min(timeout_s, left))
        except CommandSilent:
            if timeout_s <= left:
                raise
            raise TimeUp(f"{command[0]} had not answered after {left:.0f} s") from None


INCOMPLETE = "health-incomplete"


def incomplete(why: TimeUp | CommandSilent) -> Finding:
    """That the findings beside this one are those that there was an answer for."""
    what = str(why) if isinstance(why, TimeUp) else why.problems[0].what
    return Finding(
        "warning",
        INCOMPLETE,
        f"what is told of it was found before its time was over; the rest did not answer: {what}",
        "Look again; where it stays so, see the load of this node and what dmesg says",
    )


class Condition(StrEnum):
    """How well a file system is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    """All data can be read and written; something that guards them is lost."""
    BROKEN = "broken"
    """Some data, or all, cannot be read or written."""
    SILENT = "silent"
    """It does not answer, so nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A machine that serves targets. Sizes in bytes; None is what is not known."""

    name: str
    """Host name or address, and port where it has one."""
    up: bool
    state: str
    """In the file system's own word."""
    capacity_bytes: int | None = None
    used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHealth:
    """One storage unit of a file system. Sizes in bytes; None is what is not known."""

    name: str
    server: str
    up: bool
    """Whether it answers."""
    state: str
    """In the file system's own word."""
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    last_error: float | None = None
    """When its last error was, in seconds since 1970; None where it had none."""
    inodes: int | None = None
    inodes_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a server moved to and from its targets in a span of time that has ended.

    `target` and `client` tell apart what is told apart: one of a server's targets, the client it was for.
    """

    server: str
    """Empty where it is the traffic of a client with all servers."""
    seconds: float
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    busy: float | None = None
    """Part of the time with a request in flight: 1 for a single disk at work, and no limit for NVMe."""
    in_flight: float | None = None
    """Requests in flight on average."""
    target: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A file system as it is now. Sizes in bytes, of the servers that are up; None is what is not known."""

    condition: Condition
    findings: Sequence[Finding] = ()
    """What is wrong, the worst first."""
    servers: Sequence[Server] = ()
    targets: Sequence[TargetHealth] = ()
    capacity_bytes: int | None = None
    available_bytes: int | None = None

    @property
    def away(self) -> dict[str, str] | None:
        """The state of each target that is not up, by name; None where it tells of no target and no server.

        And of each server that is not up, where none of these targets is its own: of such a server some kinds
        know no targets.
        """
        if not self.targets and not self.servers:
            return None
        down = [target for target in self.targets if not target.up]
        told = {each.server for each in down}
        servers = {
            server.name: server.state for server in self.servers if not server.up and server.name not in told
        }
        return servers | {each.name: each.state for each in down}


ANSWER_S = 4.0
"""How long a file system may take for its free space before it counts as silent."""
FULL = 0.9
"""Part in use from which most file systems slow down and administrators act."""


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What statfs(2) tells. Sizes in bytes; no inodes where the file system makes them as it needs them."""

    total_bytes: int
    available_bytes: int
    inodes: int
    inodes_free: int


def read_free_space(run: Run, point: str) -> FreeSpace | str:
    """The free space of what is mounted at `point`, or in words why it is not told."""
    try:
        answer = run(["stat", "-f", "-c", "%S %b %a %c %d", point], timeout_s=ANSWER_S)
    except GridwrightError as error:
        return str(error).splitlines()[0]
    numbers = answer.stdout.split()
    if (
        answer.status == 0
        and len(numbers) == 5
        and all(number.isdigit() and len(number) <= 20 for number in numbers)
    ):
        unit, blocks, available, inodes, free = (int(number) for number in numbers)
        return FreeSpace(unit * blocks, unit * available, inodes, free)
    return answer.stderr.decode(errors="replace").strip()[:200] or f"exit status {answer.status}"


def space_findings(space: FreeSpace) -> Iterator[Finding]:
    """What is wrong with the space: little or none left, of bytes or of inodes."""
    total, available = space.total_bytes, space.available_bytes
    if total and available < (1 - FULL) * total:
        yield Finding(
            "warning" if available else "error",
            "filesystem-full",
            f"{100 - 100 * available / total:.0f} % in use, "
            f"{format_bytes(available)} of {format_bytes(total)} left",
            "Remove what is not needed, or add capacity",
        )
    if space.inodes and space.inodes_free < (1 - FULL) * space.inodes:
        yield Finding(
            "warning",
            "filesystem-inodes",
            f"{space.inodes_free} of {space.inodes} inodes left: no file can be made when they are used up",
            "Remove small files that are not needed",
        )


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of their levels."""
    return sorted(findings, key=lambda each: GRAVEST_FIRST[each.level])


def condition_of(findings: Iterable[Finding]) -> Condition:
    """How a file system is with these findings: broken by an error, degraded by a warning."""
    levels = {each.level for each in findings}
    if "error" in levels:
        return Condition.BROKEN
    return Condition.DEGRADED if "warning" in levels else Condition.HEALTHY
