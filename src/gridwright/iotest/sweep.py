"""Finds how the rate grows with the number of streams, and the number from which it grows no more."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.iotest.options import LibraryTarget
from gridwright.runs.phase_record import Op, Sweep, SweepPoint

SWEPT: tuple[Op, ...] = ("write", "read")
KNEE = 0.95
"""The knee is the smallest number of streams that reaches this part of the peak."""


def counts(cores: int) -> list[int]:
    """Streams to try: 1, 2, 4 … up to 4 per core, that last one included."""
    most = 4 * cores
    powers = [1]
    while powers[-1] * 2 <= most:
        powers.append(powers[-1] * 2)
    return powers if powers[-1] == most else [*powers, most]


def knee(points: Sequence[tuple[int, float | None]]) -> tuple[int | None, float | None]:
    """Find the knee among (streams, rate) points, and the peak rate."""
    known = [(streams, rate) for streams, rate in points if rate is not None]
    if not known:
        return None, None
    peak = max(rate for _, rate in known)
    return min(streams for streams, rate in known if rate >= KNEE * peak), peak


def summarise(op: Op, points: Sequence[tuple[int, float | None]], target: LibraryTarget) -> Sweep:
    """Build the record of a sweep."""
    cores = target.total_cores
    rows = [SweepPoint(streams, rate, rate / cores if rate is not None else None) for streams, rate in points]
    return Sweep(op, rows, *knee(points))
