"""What a phase measured, as the engine reports it, and the record of the phase made from it.

Fields stand once, with how those of nodes add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, Literal

from gridwright.iotest.options import DEFAULT_SECONDS, IotestOptions
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import PhaseBegun
from gridwright.runs.phase_record import (
    Latency,
    Operation,
    PhaseFigures,
    PhaseRecord,
    RequestedSettings,
    Status,
    Steady,
    Used,
)

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


CACHED_LIMIT = 0.05
"""A read with more of its pages in the cache than this does not count."""

_STEPS = ("create", "stat", "read", "unlink")
"""The steps of the metadata phase, in the order they run."""


def requested_settings(options: IotestOptions, streams: int) -> RequestedSettings:
    """What the user asked of a phase of so many streams."""
    return RequestedSettings(
        engine=options.engine,
        block_bytes=options.block_bytes,
        queue_depth=options.queue_depth,
        streams=streams,
        size_bytes=options.size_bytes,
        seconds=options.limit_seconds,
        verify=options.verify,
        seed=options.seed,
        allow_disturbed=options.allow_disturbed,
    )


def phase_limits(options: IotestOptions, op: str) -> tuple[float | None, int | None]:
    """Seconds, and bytes of each stream, after which a phase ends; None for no such limit."""
    size, block = options.size_bytes, options.block_bytes
    seconds = options.limit_seconds
    if (op == "metadata" and seconds is None) or (
        op in {"mixed", "metadata"} and options.until_steady_s is not None
    ):
        seconds = DEFAULT_SECONDS
    return seconds, -(-size // block) * block if size and op != "metadata" else None


def planned_use(options: IotestOptions, *, streams: int, seed: int, file_bytes: int | None) -> Used:
    """What a phase is about to use, in case it never ends."""
    return Used(
        engine=options.engine,
        block_bytes=options.block_bytes,
        direct=options.engine == "direct",
        io_uring=False,
        queue_depth=options.depth,
        streams=streams,
        method="unknown",
        seed=seed,
        file_bytes=file_bytes,
    )


def use_of(plan: Used, method: Method) -> Used:
    """What a phase used: the plan, corrected by what the engine says it did."""
    return replace(plan, method=method.calls, **shared_fields(method, Used))


def make_phase_record(
    begun: PhaseBegun, outcome: Outcome, *, cores: int, memory_backed: bool, steady: Steady | None
) -> PhaseRecord:
    """The record of a phase that has ended, on so many cores."""
    figures = phase_figures(begun.op, outcome, cores=cores, memory_backed=memory_backed, steady=steady)
    counts = _counts(begun.op, outcome)
    return PhaseRecord(
        **shared_fields(begun, PhaseRecord) | {"used": use_of(begun.used, outcome.method)},
        **shared_fields(figures, PhaseRecord),
        wall_s=outcome.wall_s,
        read_bytes_per_s=_role_rate(outcome, "read"),
        write_bytes_per_s=_role_rate(outcome, "write") if _is_durable(outcome) else None,
        per_stream_bytes_per_s=[
            stream.bytes / stream.seconds for stream in outcome.streams if stream.seconds > 0
        ]
        if counts
        else [],
        per_stream_seconds=[stream.seconds for stream in outcome.streams] if counts else [],
        laps=max((stream.laps for stream in outcome.streams), default=None) if figures.bytes else None,
        voluntary_switches=outcome.voluntary_switches if outcome.started else None,
        involuntary_switches=outcome.involuntary_switches if outcome.started else None,
        operations=_operations(outcome),
        steady=steady,
    )


def phase_figures(
    op: str, outcome: Outcome, *, cores: int, memory_backed: bool, steady: Steady | None = None
) -> PhaseFigures:
    """Turn an outcome of the engine, on so many cores, into figures.

    `rate_first = bytes until the first stream ended / its seconds`; `rate_last = all bytes /
    the longest stream's seconds`, the closing fsync included. A write through the page cache
    that was stopped before its fsync has no rate: its bytes may never have left memory.
    """
    moved = outcome.bytes if op != "metadata" else None
    counts = _counts(op, outcome)
    last = _rate(moved, outcome.seconds_last) if counts else None
    judged = last
    if steady and steady.steady_bytes_per_s and last:
        # A steady rate above the last-done one was the page cache's; the fsync shows the rest.
        judged = min(steady.steady_bytes_per_s, last)
    fraction = outcome.cached_fraction
    return PhaseFigures(
        status=_status(outcome),
        bytes=moved,
        read_bytes=outcome.read_bytes if moved is not None else None,
        written_bytes=outcome.written_bytes if moved is not None else None,
        seconds_first=outcome.seconds_first,
        seconds_last=outcome.seconds_last,
        rate_first_bytes_per_s=_rate(outcome.bytes_first, outcome.seconds_first) if counts else None,
        rate_last_bytes_per_s=last,
        per_core_bytes_per_s=judged / cores if judged else None,
        fsync_s=outcome.fsync_s if outcome.written_bytes else None,
        latency_us=outcome.latency_us or Latency(),
        cpu_user_s=outcome.cpu_user_s if outcome.started else None,
        cpu_system_s=outcome.cpu_system_s if outcome.started else None,
        cached_fraction=fraction,
        # Direct reads bypass the page cache, unless the file system is nothing but memory.
        cached=fraction is not None
        and fraction > CACHED_LIMIT
        and (memory_backed or not outcome.method.direct),
        verified_bytes=outcome.verified_bytes or None,
        ops_per_s=_ops_per_s(outcome),
    )


def _counts(op: str, outcome: Outcome) -> bool:
    return op != "metadata" and outcome.bytes > 0 and (not outcome.written_bytes or _is_durable(outcome))


def _is_durable(outcome: Outcome) -> bool:
    return outcome.synced or outcome.method.direct


def _status(outcome: Outcome) -> Status:
    if outcome.failure or outcome.mismatch:
        return "failed"
    return "interrupted" if outcome.stopped else "complete"


def _rate(moved: int | None, seconds: float | None) -> float | None:
    return moved / seconds if moved and seconds else None


def _role_rate(outcome: Outcome, role: str) -> float | None:
    streams = [stream for stream in outcome.streams if stream.role == role]
    if not streams:
        return None
    return _rate(sum(s.bytes for s in streams), max(s.seconds for s in streams))


def _ops_per_s(outcome: Outcome) -> float | None:
    seconds = sum(done.seconds for done in outcome.operations.values())
    return sum(done.count for done in outcome.operations.values()) / seconds if seconds else None


def _operations(outcome: Outcome) -> dict[str, Operation] | None:
    operations = {
        name: Operation(
            count=done.count,
            seconds=done.seconds,
            ops_per_s=done.count / done.seconds if done.seconds else None,
        )
        for name in _STEPS
        if (done := outcome.operations.get(name)) is not None
    }
    return operations or None
