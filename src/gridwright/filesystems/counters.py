"""Counters and figures of file systems, the same for every kind, each with the time of who told it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gridwright.filesystems.health import Traffic


class TrafficCount(NamedTuple):
    """What was moved to and from one target since it began to be counted.

    A tuple, since there are hundreds of them each second.
    """

    at_s: float
    """When it was read, by the clock of who counts: only differences of one count mean anything."""
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    since_s: float | None = None
    """When the count began, by the same clock, and another value after it began anew; None if unknown."""
    busy_s: float | None = None
    """With at least one request in flight; None where that is not counted."""
    waited_s: float | None = None
    """Of all requests together, from their beginning to their end; None where that is not counted."""
    server: str = ""
    """Empty where it is of all servers, or of the node that was asked."""
    target: str = ""
    client: str = ""
    """The client, or the job on it, that it was for; empty where it is of all."""


Counts = Mapping[str, TrafficCount]
"""By a name that is the same in each reading."""
ReadCounts = Callable[[], Counts]
"""Reads all counts, now. Changes none of them, so that others can read them, too.

Ends within some seconds whatever hangs. Raises GridwrightError (status ENVIRONMENT) where nothing can be
read.
"""


def added(one: TrafficCount, other: TrafficCount) -> TrafficCount:
    """Two counts of the same target as one, which begins anew where either does."""
    known = one.since_s is not None and other.since_s is not None
    waited = one.waited_s is not None and other.waited_s is not None
    return one._replace(
        at_s=max(one.at_s, other.at_s),
        since_s=max(one.since_s or 0.0, other.since_s or 0.0) if known else None,
        read_bytes=one.read_bytes + other.read_bytes,
        written_bytes=one.written_bytes + other.written_bytes,
        reads=one.reads + other.reads,
        writes=one.writes + other.writes,
        busy_s=None,
        waited_s=(one.waited_s or 0.0) + (other.waited_s or 0.0) if waited else None,
    )


def traffic(before: Counts, after: Counts) -> list[Traffic]:
    """What was moved between two readings.

    What is new and tells since when it counts began at zero. Left out is what was cleared or began anew
    meanwhile, and what may have been there before unseen: no figure is better than a wrong one.
    """
    last = max((each.at_s for each in before.values() if each.since_s is not None), default=0.0)
    found = []
    for name, new in after.items():
        old = before.get(name) or _zero(new, last)
        moved = None if old is None else _moved(old, new)
        found += [] if moved is None else [moved]
    return found


def _zero(new: TrafficCount, last: float) -> TrafficCount | None:
    """What a count was when it began, if that was after `last`."""
    if new.since_s is None or new.since_s <= last:
        return None
    return TrafficCount(
        at_s=new.since_s, since_s=new.since_s, read_bytes=0, written_bytes=0, reads=0, writes=0
    )


def _moved(old: TrafficCount, new: TrafficCount) -> Traffic | None:
    span = new.at_s - old.at_s
    read_bytes, written_bytes = new.read_bytes - old.read_bytes, new.written_bytes - old.written_bytes
    reads, writes = new.reads - old.reads, new.writes - old.writes
    if old.since_s != new.since_s or span <= 0 or min(read_bytes, written_bytes, reads, writes) < 0:
        return None
    return Traffic(
        server=new.server,
        seconds=span,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        reads=reads,
        writes=writes,
        busy=_part(old.busy_s, new.busy_s, span),
        in_flight=_part(old.waited_s, new.waited_s, span),
        target=new.target,
        client=new.client,
    )


def _part(old: float | None, new: float | None, span: float) -> float | None:
    return None if old is None or new is None else max(0.0, (new - old) / span)


class Reading(NamedTuple):
    """One figure: a counter (its metric ends in `_total`) or a gauge; bytes and seconds.

    A tuple, since a node has thousands of them each second.
    """

    metric: str
    labels: tuple[str, ...]
    value: float
    at_s: float
    """When its source told it, by the source's own clock: only differences of one series mean anything."""
    since_s: float | None = None
    """When the counter began, by the same clock, and another value after it began anew; None if unknown."""

    @property
    def key(self) -> tuple[str, ...]:
        """What is the same in all readings of one series."""
        return (self.metric, *self.labels)

    @property
    def is_counter(self) -> bool:
        """Whether only differences of it mean anything."""
        return self.metric.endswith("_total")


@dataclass(frozen=True, slots=True)
class FigureSource:
    """Readings that belong together, and how often they are worth their cost."""

    read: Callable[[], list[Reading]]
    """Raises GridwrightError (status ENVIRONMENT), or OSError, where nothing can be read. May hang."""
    every_s: float = 1.0
    """Not more often than this."""
    most_part: float = 1.0
    """Of one core that reading may take: it is read less often where it takes more."""
