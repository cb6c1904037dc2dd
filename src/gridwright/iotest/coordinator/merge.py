"""Merges the outcomes of several nodes: the same figures as if all streams had run on one node."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from gridwright.iotest.engine import Sample
from gridwright.iotest.outcome import Method, OperationOutcome, Outcome, of_all_nodes
from gridwright.runs.phase_record import Latency

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


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
    counts = _added(outcome.latency_counts for outcome in outcomes)
    seconds_first, bytes_first = _first(parts, begin)
    return Outcome(
        **of_all_nodes(outcomes),
        seconds_first=seconds_first,
        bytes_first=bytes_first,
        seconds_last=_latest(parts, begin, lambda outcome: outcome.seconds_last),
        wall_s=_latest(parts, begin, lambda outcome: outcome.wall_s),
        latency_us=percentiles(counts),
        latency_counts=counts,
        cached_fraction=_cached(outcomes),
        operations=_operations(outcomes),
        method=_method(parts),
    )


def percentiles(counts: Sequence[tuple[int, int]]) -> Latency | None:
    """Percentiles in microseconds of (nanoseconds, count) pairs in order.

    As HdrHistogram has them: of n requests, the time that at least ceil(q n) of them did not exceed.
    """
    if not counts:
        return None
    reached = list(accumulate(count for _, count in counts))
    found: dict[str, Any] = {
        name: counts[bisect_left(reached, max(1, math.ceil(quantile * reached[-1])))][0] / 1000
        for name, quantile in QUANTILES.items()
    }
    return Latency(**found, max=counts[-1][0] / 1000)


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
    ends = [each for part in parts if (each := _first_end(part)) is not None]
    if not ends:
        return None, None
    first, end, seconds, moved = min(ends, key=lambda each: each.end)
    others = sum(
        min(moved_by(part.history, end - part.start_s), part.outcome.bytes)
        for part in parts
        if part is not first
    )
    return first.start_s - begin + seconds, moved + round(others)


class _End(NamedTuple):
    """When the first stream of a node ended, by the shared clock; its seconds of I/O, and what had moved."""

    part: Part
    end: float
    seconds: float
    moved: int


def _first_end(part: Part) -> _End | None:
    seconds, moved = part.outcome.seconds_first, part.outcome.bytes_first
    walls = [stream.wall_s for stream in part.outcome.streams if stream.wall_s > 0]
    if seconds is None or moved is None or not walls:
        return None
    return _End(part, part.start_s + min(walls), seconds, moved)


def _latest(parts: Sequence[Part], begin: float, end: Callable[[Outcome], float | None]) -> float | None:
    ends = [(part.start_s - begin, end(part.outcome)) for part in parts]
    return max((start + seconds for start, seconds in ends if seconds is not None), default=None)


def _added(all_counts: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    total: dict[int, int] = {}
    for counts in all_counts:
        for value, count in counts:
            total[value] = total.get(value, 0) + count
    return sorted(total.items())


def _cached(outcomes: Sequence[Outcome]) -> float | None:
    """The part of what was read that was cached; None if a node that read cannot say."""
    readers = [(outcome.cached_fraction, outcome.read_bytes) for outcome in outcomes if outcome.read_bytes]
    cached = [fraction * read for fraction, read in readers if fraction is not None]
    if not readers or len(cached) < len(readers):
        return None
    return sum(cached) / sum(read for _, read in readers)


def _operations(outcomes: Sequence[Outcome]) -> dict[str, OperationOutcome]:
    """Metadata operations by kind: all of them, over the time of the node that took longest."""
    operations: dict[str, OperationOutcome] = {}
    for outcome in outcomes:
        for name, done in outcome.operations.items():
            before = operations.get(name, OperationOutcome(0, 0.0))
            operations[name] = OperationOutcome(before.count + done.count, max(before.seconds, done.seconds))
    return operations


def _method(parts: Sequence[Part]) -> Method:
    """How the calls were made: as on the first node, unless another one did otherwise."""
    method = parts[0].outcome.method
    other = [part for part in parts if part.outcome.method != method]
    if not other:
        return method
    note = other[0].outcome.method.note or "the calls were made otherwise"
    alike = of_all_nodes([part.outcome.method for part in parts])
    return replace(method, **alike, note=f"on node {other[0].node}: {note}")
