"""One job of a scheduler's accounting, the launch that it is, and the stream that it is laid in.

There are the fewest streams in which none runs beside another.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gridwright.runs.launch_record import LaunchRecord

_ELEMENT = re.compile(r"\[[\d,:%-]*\]$")
_LONGEST_NAME = 80
_MOST = 1e18
"""No time in seconds, and no size in bytes, is as large; NaN is no figure either."""


@dataclass(slots=True)
class AccountedJob:
    """What accounting tells of a job that has ended; what it does not tell is None.

    Times in Unix time, durations in seconds. `cores` are those it was given, on all its nodes.
    """

    id: str
    name: str
    node: str
    ok: bool
    reason: str | None = None
    cores: int = 1
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    real_s: float | None = None
    user_s: float | None = None
    """All CPU time, where user and system are not told apart."""
    system_s: float | None = None
    peak_memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """As its processes asked for them, cached or not."""
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    """As the block layer counted them."""
    restarts: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a figure that no job has: a file may hold any."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not -_MOST <= value <= _MOST:
                raise ValueError(f"{name} is no such figure")

    def launch(self, number: int, log: str) -> LaunchRecord:
        """The launch; all elements of a job array have one name."""
        cpu_s = None if self.user_s is None else self.user_s + (self.system_s or 0.0)
        return LaunchRecord(
            number=number,
            test=job_name(self.name) or self.id,
            class_="command",
            stream=1,
            node=self.node,
            cores=max(1, self.cores),
            started=self.started,
            ended=self.ended,
            real_s=self.real_s,
            user_s=self.user_s,
            system_s=self.system_s,
            peak_memory_bytes=self.peak_memory_bytes,
            read_bytes=self.read_bytes,
            written_bytes=self.written_bytes,
            device_read_bytes=self.device_read_bytes,
            device_written_bytes=self.device_written_bytes,
            cpu_real_ratio=cpu_s / self.real_s if cpu_s is not None and self.real_s else None,
            ok=self.ok,
            reason=self.reason,
            log=log,
            job=self.id,
            submitted=self.submitted,
            restarts=self.restarts,
        )


@dataclass(slots=True)
class Accounts:
    """All jobs of one file, and those that are no launches."""

    jobs: list[AccountedJob] = field(default_factory=list)
    unfinished: int = 0
    """Pending, running, or ended before they began."""
    unreadable: list[int] = field(default_factory=list)
    """Lines that hold no record that can be read, from 1."""

    def add(self, number: int, read: Callable[[], AccountedJob | None]) -> None:
        """Read a job and take it; None is one that is no launch. `number` is where it stands."""
        try:
            job = read()
        except (AttributeError, TypeError, LookupError, ValueError, ArithmeticError):
            self.unreadable.append(number)
            return
        if job is None:
            self.unfinished += 1
        else:
            self.jobs.append(job)


def job_name(name: str) -> str:
    """A job's name in one line, without the indices of its array."""
    plain = "".join(letter if letter.isprintable() else " " for letter in _ELEMENT.sub("", name))
    return " ".join(plain.split())[:_LONGEST_NAME]


def command_name(command: str) -> str:
    """The name of a job that has none: that of its program, which options of LSF may stand before."""
    parts = (part.split() for part in command.split(";"))
    return next((words[0].rsplit("/", 1)[-1] for words in parts if words and words[0][0] != "#"), "")


_STAMP_RESOLUTION_S = 1.0


def assign_streams(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Give each launch a stream, the first that is free; keep their order.

    Logs and schedulers write times in whole seconds, so less than a second in common does not count. A
    launch without times goes to stream 1.
    """
    spans = [
        (launch.started, launch.ended, index)
        for index, launch in enumerate(launches)
        if launch.started is not None and launch.ended is not None
    ]
    streams = [1] * len(launches)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for started, ended, index in sorted(spans):
        while busy and busy[0][0] <= started:
            heapq.heappush(free, heapq.heappop(busy)[1])
        stream = heapq.heappop(free) if free else len(busy) + 1
        heapq.heappush(busy, (ended - _STAMP_RESOLUTION_S, stream))
        streams[index] = stream
    return [replace(launch, stream=stream) for launch, stream in zip(launches, streams, strict=True)]
