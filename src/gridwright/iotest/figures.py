"""Makes the record of a phase from what the engine measured: plain data, keys with units."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridwright.iotest.options import DEFAULT_SECONDS, IotestOptions, LibraryTarget
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.steady import SteadyResult

CACHED_LIMIT = 0.05
"""A read with more of its pages in the cache than this does not count."""

_USAGE = ("cpu_user_s", "cpu_system_s", "voluntary_switches", "involuntary_switches")

STEPS = ("create", "stat", "read", "unlink")
"""The steps of the metadata phase, in the order they run."""

Figures = dict[str, Any]


def asked(options: IotestOptions, target: LibraryTarget) -> Figures:
    """What the user asked of a phase."""
    return {
        "engine": options.engine,
        "block_bytes": options.block_bytes,
        "queue_depth": options.queue_depth,
        "streams": options.streams if options.streams is not None else target.cores,
        "size_bytes": options.size_bytes,
        "seconds": options.limit_seconds,
        "verify": options.verify,
        "seed": options.seed,
    }


def limits(options: IotestOptions, op: str) -> tuple[float | None, int | None]:
    """Seconds, and bytes of each stream, after which a phase ends; None for no such limit."""
    size, block = options.size_bytes, options.block_bytes
    seconds = options.limit_seconds
    if (op == "metadata" and seconds is None) or (
        op in {"mixed", "metadata"} and options.until_steady_s is not None
    ):
        seconds = DEFAULT_SECONDS
    return seconds, -(-size // block) * block if size and op != "metadata" else None


def planned(options: IotestOptions, *, streams: int, seed: int, file_bytes: int | None) -> Figures:
    """What a phase is about to use, in case it never ends."""
    return {
        "engine": options.engine,
        "block_bytes": options.block_bytes,
        "direct": options.engine == "direct",
        "io_uring": False,
        "queue_depth": options.depth,
        "streams": streams,
        "method": "unknown",
        "seed": seed,
        "file_bytes": file_bytes,
    }


def used(plan: Figures, outcome: Outcome) -> Figures:
    """What a phase used: the plan, corrected by what the engine says it did."""
    method = outcome.method
    return plan | {
        "direct": method.direct,
        "io_uring": method.io_uring,
        "queue_depth": method.queue_depth,
        "method": method.calls,
        "registered_buffers": method.registered_buffers,
        "registered_files": method.registered_files,
        "preallocated": method.preallocated,
        "note": method.note,
    }


def phase_figures(
    op: str,
    outcome: Outcome,
    *,
    target: LibraryTarget,
    memory_backed: bool,
    steady: SteadyResult | None,
) -> Figures:
    """Turn an outcome of the engine into the figures of `PhaseRecord`.

    `rate_first = bytes until the first stream ended / its seconds`; `rate_last = all bytes /
    the longest stream's seconds`, the closing fsync included. A write through the page cache
    that was stopped before its fsync has no rate: its bytes may never have left memory.
    """
    direct = outcome.method.direct
    moved = outcome.bytes if op != "metadata" else None
    durable = outcome.synced or direct
    counts = bool(moved) and (outcome.written_bytes == 0 or durable)
    last = _rate(moved, outcome.seconds_last) if counts else None
    judged = last
    if steady and steady.steady_bytes_per_s and last:
        # A steady rate above the last-done one was the page cache's; the fsync shows the rest.
        judged = min(steady.steady_bytes_per_s, last)
    fraction = outcome.cached_fraction
    return {
        "status": _status(outcome),
        "bytes": moved,
        "read_bytes": outcome.read_bytes if moved is not None else None,
        "written_bytes": outcome.written_bytes if moved is not None else None,
        "seconds_first": outcome.seconds_first,
        "seconds_last": outcome.seconds_last,
        "wall_s": outcome.wall_s,
        "rate_first_bytes_per_s": (_rate(outcome.bytes_first, outcome.seconds_first) if counts else None),
        "rate_last_bytes_per_s": last,
        "read_bytes_per_s": _role_rate(outcome, "read"),
        "write_bytes_per_s": _role_rate(outcome, "write") if durable else None,
        "per_core_bytes_per_s": judged / target.total_cores if judged else None,
        "per_stream_bytes_per_s": [
            stream.bytes / stream.seconds for stream in outcome.streams if stream.seconds > 0
        ]
        if counts
        else [],
        "per_stream_seconds": [stream.seconds for stream in outcome.streams] if counts else [],
        "fsync_s": outcome.fsync_s if outcome.written_bytes else None,
        "laps": max((stream.laps for stream in outcome.streams), default=None) if moved else None,
        "latency_us": asdict(outcome.latency_us) if outcome.latency_us else {},
        **{key: getattr(outcome, key) if outcome.started else None for key in _USAGE},
        "cached_fraction": fraction,
        # Direct reads bypass the page cache, unless the file system is nothing but memory.
        "cached": fraction is not None and fraction > CACHED_LIMIT and (memory_backed or not direct),
        "verified_bytes": outcome.verified_bytes or None,
    } | _operations(outcome)


def _status(outcome: Outcome) -> str:
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


def _operations(outcome: Outcome) -> Figures:
    if not outcome.operations:
        return {"ops_per_s": None, "operations": None}
    operations = {
        name: asdict(done) | {"ops_per_s": done.count / done.seconds if done.seconds else None}
        for name in STEPS
        if (done := outcome.operations.get(name)) is not None
    }
    count = sum(done.count for done in outcome.operations.values())
    seconds = sum(done.seconds for done in outcome.operations.values())
    return {"ops_per_s": count / seconds if seconds else None, "operations": operations}
