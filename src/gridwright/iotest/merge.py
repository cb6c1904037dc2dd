"""One outcome out of those of several nodes: the same figures as if all streams had run on one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from gridwright.iotest.engine import Sample

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
_SUMS = (
    "bytes",
    "read_bytes",
    "written_bytes",
    "cpu_user_s",
    "cpu_system_s",
    "voluntary_switches",
    "involuntary_switches",
    "verified_bytes",
)
Outcome = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """What one node measured. `start_s` is when its streams started, by a clock that all parts share."""

    node: str
    outcome: Outcome
    start_s: float
    history: Sequence[Sample] = ()
    """What it had moved at each of its samples."""


def merged(parts: Sequence[Part]) -> Outcome:
    """Put the outcomes of nodes together; times count from the start of the node that started first.

    `seconds_last` is when the last stream of all ended, `seconds_first` when the first one did, and
    `bytes_first` what all had moved by then: of the node that it is on the engine says so, of the others
    it is interpolated between two samples. Latencies are put together count by count, and percentiles
    taken of the whole. Raises ValueError without parts.
    """
    begin = min(part.start_s for part in parts)
    outcomes = [part.outcome for part in parts]
    whole: Outcome = {key: sum(outcome[key] for outcome in outcomes) for key in _SUMS}
    counts = _added(outcome["latency_counts"] for outcome in outcomes)
    seconds_first, bytes_first = _first(parts, begin)
    return whole | {
        "started": any(outcome["started"] for outcome in outcomes),
        "stopped": any(outcome["stopped"] for outcome in outcomes),
        "seconds_first": seconds_first,
        "bytes_first": bytes_first,
        "seconds_last": _latest(parts, begin, "seconds_last"),
        "wall_s": _latest(parts, begin, "wall_s"),
        "fsync_s": max(outcome["fsync_s"] for outcome in outcomes),
        "synced": all(outcome["synced"] for outcome in outcomes),
        "latency_us": percentiles(counts),
        "latency_counts": counts,
        "cached_fraction": _cached(outcomes),
        "operations": _operations(outcomes),
        "method": _method(parts),
        "failure": next((outcome["failure"] for outcome in outcomes if outcome["failure"]), None),
        "mismatch": next((outcome["mismatch"] for outcome in outcomes if outcome["mismatch"]), None),
        "streams": [stream for outcome in outcomes for stream in outcome["streams"]],
    }


def percentiles(counts: Sequence[Sequence[int]]) -> dict[str, float] | None:
    """Percentiles in microseconds of (nanoseconds, count) pairs in order.

    As HdrHistogram has them: of n requests, the time that at least ceil(q n) of them did not exceed.
    """
    if not counts:
        return None
    reached = list(accumulate(count for _, count in counts))
    found = {
        name: counts[bisect_left(reached, max(1, math.ceil(quantile * reached[-1])))][0] / 1000
        for name, quantile in QUANTILES.items()
    }
    return found | {"max": counts[-1][0] / 1000}


def moved_by(history: Sequence[Sample], at_s: float) -> float:
    """Bytes that a node had moved `at_s` after its start, between two samples in proportion."""
    before = Sample(0.0, 0, 0, 0)
    for sample in history:
        if sample.elapsed_s >= at_s:
            span = sample.elapsed_s - before.elapsed_s
            share = (at_s - before.elapsed_s) / span if span > 0 else 1.0
            return _moved(before) + max(0.0, share) * (_moved(sample) - _moved(before))
        before = sample
    return float(_moved(before))


def _moved(sample: Sample) -> int:
    return sample.read_bytes + sample.written_bytes


def _first(parts: Sequence[Part], begin: float) -> tuple[float | None, int | None]:
    """When the first stream of all ended, in seconds of I/O, and what all had moved by then."""
    ends = [(end, part) for part in parts if (end := _first_end(part)) is not None]
    if not ends:
        return None, None
    end, first = min(ends, key=lambda each: each[0])
    others = sum(
        min(moved_by(part.history, end - part.start_s), part.outcome["bytes"])
        for part in parts
        if part is not first
    )
    seconds = first.start_s - begin + first.outcome["seconds_first"]
    return seconds, first.outcome["bytes_first"] + round(others)


def _first_end(part: Part) -> float | None:
    """When the first stream of a node ended, by the shared clock."""
    walls = [stream["wall_s"] for stream in part.outcome["streams"] if stream["wall_s"] > 0]
    if part.outcome["seconds_first"] is None or part.outcome["bytes_first"] is None or not walls:
        return None
    return part.start_s + float(min(walls))


def _latest(parts: Sequence[Part], begin: float, key: str) -> float | None:
    known = [part.start_s - begin + part.outcome[key] for part in parts if part.outcome[key] is not None]
    return max(known, default=None)


def _added(all_counts: Iterable[Sequence[Sequence[int]]]) -> list[tuple[int, int]]:
    total: dict[int, int] = {}
    for counts in all_counts:
        for value, count in counts:
            total[value] = total.get(value, 0) + count
    return sorted(total.items())


def _cached(outcomes: Sequence[Outcome]) -> float | None:
    """The part of what was read that was cached; None if a node that read cannot say."""
    readers = [outcome for outcome in outcomes if outcome["read_bytes"]]
    if not readers or any(outcome["cached_fraction"] is None for outcome in readers):
        return None
    read = sum(outcome["read_bytes"] for outcome in readers)
    return float(sum(outcome["cached_fraction"] * outcome["read_bytes"] for outcome in readers) / read)


def _operations(outcomes: Sequence[Outcome]) -> Outcome:
    """Metadata operations by kind: all of them, over the time of the node that took longest."""
    found: Outcome = {}
    for outcome in outcomes:
        for name, figures in outcome["operations"].items():
            entry = found.setdefault(name, {"count": 0, "seconds": 0.0})
            entry["count"] += figures["count"]
            entry["seconds"] = max(entry["seconds"], figures["seconds"])
    return found


def _method(parts: Sequence[Part]) -> Outcome:
    """How the calls were made: as on the first node, unless another one did otherwise."""
    method: Outcome = dict(parts[0].outcome["method"])
    other = [part for part in parts if part.outcome["method"] != method]
    if other:
        for key in ("direct", "io_uring", "registered_buffers", "registered_files", "preallocated"):
            method[key] = all(part.outcome["method"][key] for part in parts)
        note = other[0].outcome["method"]["note"] or "the calls were made otherwise"
        method["note"] = f"on node {other[0].node}: {note}"
    return method
