"""What a phase measured, as the engine reports it: fields stand once, with how those of nodes add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Literal

from gridwright.runs.phase_record import Latency

Role = Literal["write", "read", "metadata"]
Rule = Callable[[Iterable[Any]], Any]
"""Makes one value for all nodes out of those of each."""
_RULE = "of all nodes"


def _first(values: Iterable[Any]) -> Any:  # noqa: ANN401 - None, or what one node tells
    return next((value for value in values if value is not None), None)


def _joined(values: Iterable[Sequence[Any]]) -> list[Any]:
    return list(chain.from_iterable(values))


def of_all(rule: Rule) -> Mapping[str, Rule]:
    """Marks a field whose value for all nodes comes of those of each."""
    return {_RULE: rule}


@dataclass(frozen=True, slots=True)
class StillStand:
    """Requests of a stream did not come back: `start_s` after the start of the phase, for `seconds`."""

    start_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """What one stream did; times in seconds."""

    role: Role
    path: str
    bytes: int
    seconds: float
    wall_s: float
    excluded_s: float
    fsync_s: float
    synced: bool
    laps: int
    file_bytes: int
    stalls: list[StillStand]


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """One kind of metadata operation: how many, and the seconds they took."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Method:
    """How the calls were made; `note` says why otherwise than asked."""

    calls: str
    io_uring: bool = field(metadata=of_all(all))
    direct: bool = field(metadata=of_all(all))
    queue_depth: int
    registered_buffers: bool = field(metadata=of_all(all))
    registered_files: bool = field(metadata=of_all(all))
    preallocated: bool = field(metadata=of_all(all))
    note: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed: `errno` as in errno(3), 0 if the kernel gave none."""

    op: str
    path: str
    offset: int | None
    errno: int
    message: str
    detail: str = ""
    """What the client of the file system adds, such as the target that is full."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Bytes that are not those written."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One phase of one node, or of several put together; times in seconds, None where nothing was measured.

    `latency_counts` are pairs of nanoseconds and how many requests took so long, in order.
    """

    started: bool = field(metadata=of_all(any))
    stopped: bool = field(metadata=of_all(any))
    bytes: int = field(metadata=of_all(sum))
    read_bytes: int = field(metadata=of_all(sum))
    written_bytes: int = field(metadata=of_all(sum))
    bytes_first: int | None
    seconds_first: float | None
    seconds_last: float | None
    wall_s: float | None
    fsync_s: float = field(metadata=of_all(max))
    synced: bool = field(metadata=of_all(all))
    latency_us: Latency | None
    latency_counts: list[tuple[int, int]]
    cpu_user_s: float = field(metadata=of_all(sum))
    cpu_system_s: float = field(metadata=of_all(sum))
    voluntary_switches: int = field(metadata=of_all(sum))
    involuntary_switches: int = field(metadata=of_all(sum))
    cached_fraction: float | None
    verified_bytes: int = field(metadata=of_all(sum))
    operations: dict[str, OperationOutcome]
    method: Method
    failure: Failure | None = field(metadata=of_all(_first))
    mismatch: Mismatch | None = field(metadata=of_all(_first))
    streams: list[StreamOutcome] = field(metadata=of_all(_joined))


def of_all_nodes(each: Sequence[Outcome] | Sequence[Method]) -> dict[str, Any]:
    """The fields that come of those of each node by a rule of their own, see `of_all`."""
    return {
        field.name: field.metadata[_RULE](getattr(one, field.name) for one in each)
        for field in fields(each[0])
        if _RULE in field.metadata
    }
