"""Makes the record of a phase from what the engine measured."""

from __future__ import annotations

from dataclasses import replace

from gridwright.iotest.options import DEFAULT_SECONDS, IotestOptions
from gridwright.iotest.outcome import Method, Outcome
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

CACHED_LIMIT = 0.05
"""A read with more of its pages in the cache than this does not count."""

STEPS = ("create", "stat", "read", "unlink")
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


def limits(options: IotestOptions, op: str) -> tuple[float | None, int | None]:
    """Seconds, and bytes of each stream, after which a phase ends; None for no such limit."""
    size, block = options.size_bytes, options.block_bytes
    seconds = options.limit_seconds
    if (op == "metadata" and seconds is None) or (
        op in {"mixed", "metadata"} and options.until_steady_s is not None
    ):
        seconds = DEFAULT_SECONDS
    return seconds, -(-size // block) * block if size and op != "metadata" else None


def planned(options: IotestOptions, *, streams: int, seed: int, file_bytes: int | None) -> Used:
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


def used(plan: Used, method: Method) -> Used:
    """What a phase used: the plan, corrected by what the engine says it did."""
    return replace(plan, method=method.calls, **shared_fields(method, Used))


def phase_record(
    begun: PhaseBegun, outcome: Outcome, *, cores: int, memory_backed: bool, steady: Steady | None
) -> PhaseRecord:
    """The record of a phase that has ended, on so many cores."""
    figures = phase_figures(begun.op, outcome, cores=cores, memory_backed=memory_backed, steady=steady)
    counts = _counts(begun.op, outcome)
    return PhaseRecord(
        **shared_fields(begun, PhaseRecord) | {"used": used(begun.used, outcome.method)},
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
        for name in STEPS
        if (done := outcome.operations.get(name)) is not None
    }
    return operations or None
