"""Finds how the rate grows with the number of streams, and the number from which it grows no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridwright.iotest.options import LibraryTarget

SWEPT = ("write", "read")
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


def summarise(op: str, points: Sequence[tuple[int, float | None]], target: LibraryTarget) -> dict[str, Any]:
    """Build the record of a sweep, see `gridwright.runs.records.Sweep`."""
    streams, peak = knee(points)
    cores = target.total_cores
    return {
        "op": op,
        "points": [
            {
                "streams": streams,
                "rate_bytes_per_s": rate,
                "per_core_bytes_per_s": rate / cores if rate is not None else None,
            }
            for streams, rate in points
        ],
        "knee_streams": streams,
        "peak_bytes_per_s": peak,
    }
