"""Targets that a client keeps far busier than others, by its own counters over some seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridwright.errors import Finding
from gridwright.filesystems.health import Traffic
from gridwright.units import format_rate

UNEVEN = 2.0
"""A target with so many times its share of the load: the others idle half of the time."""
LEAST_BYTES_PER_S = 50e6
"""Below it no target is busy, and few requests fall anywhere."""
SECONDS = 1.0
"""The least span of a look: requests of 4 MiB come and go within tens of milliseconds."""


def load_findings(
    moved: Sequence[Traffic], targets: int, target_bytes_per_s: float | None = None
) -> Iterator[Finding]:
    """A finding where one target has far more than its share of what this client moves.

    `targets` is how many there are. One stream to a file on one target is told, too: it is what it costs.
    """
    rates = {
        each.target: (each.read_bytes + each.written_bytes) / each.seconds for each in moved if each.target
    }
    total = sum(rates.values())
    if targets < 2 or total < LEAST_BYTES_PER_S:
        return
    busiest = max(rates, key=lambda target: rates[target])
    most, times = rates[busiest], rates[busiest] * targets / total
    if times < UNEVEN:
        return
    span = max(each.seconds for each in moved)
    spare = targets * most - total
    full = f", and a target delivers {format_rate(target_bytes_per_s)}" if target_bytes_per_s else ""
    yield Finding(
        "info",
        "targets-unevenly-loaded",
        f"{busiest} has {format_rate(most)} of the {format_rate(total)} that this client moved over "
        f"{span:.1f} s, {times:.1f} times its share of {targets} targets{full}: with all as busy as it there "
        f"would be {format_rate(spare)} more",
        "See in gridwright layout check which files lie on few targets, and move these: gridwright layout "
        "rebalance",
    )
