"""When file systems will be full, as a line through the past says, and how evenly targets are used (pure).

The line is that of Theil and Sen: the median of the slopes between all pairs of points. Up to 29 % of the
points may be anything at all, such as a night in which scratch data came and went, without moving it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from gridwright.monitor.console.laid import Values

DAY_S = 86_400.0
_FEWEST_POINTS = 12
_MOST_POINTS = 400
_LONGEST_DAYS = 3650.0
"""Ten years: nobody extrapolates beyond."""
Outlook = Literal["fills", "steady", "empties", "cannot tell"]


@dataclass(frozen=True, slots=True)
class SpaceOutlook:
    """What is to be expected of a file system's space."""

    outlook: Outlook
    days: float | None = None
    """Until it is full, at the rate that the line has; None where it does not fill."""
    soonest: float | None = None
    latest: float | None = None
    """The same at the ends of the 95 % interval of the slope; None for never."""
    bytes_per_day: float | None = None
    why: str = ""
    """Why nothing can be told."""


def outlook_of(times: Sequence[float], used: Values, size: float) -> SpaceOutlook:
    """The outlook of bytes that were used at times (seconds); NaN where nothing is known.

    Slope and interval: Sen (1968), as `scipy.stats.theilslopes` has them.
    """
    from scipy.stats import theilslopes

    at, known = np.asarray(times, dtype=float), ~np.isnan(used)
    at, told = at[known], used[known]
    if len(told) < _FEWEST_POINTS:
        return SpaceOutlook("cannot tell", why=f"{len(told)} points are too few")
    thin = max(1, -(-len(told) // _MOST_POINTS))
    at, told = at[::thin], told[::thin]
    slope, _, low, high = (float(each) for each in theilslopes(told, at / DAY_S, 0.95))
    left = size - float(told[-1])
    if low <= 0 <= high and max(abs(low), abs(high)) * 365 < size / 100:
        return SpaceOutlook("steady", bytes_per_day=slope)
    if low <= 0 <= high:
        return SpaceOutlook("cannot tell", bytes_per_day=slope, why="it goes up and down")
    if slope < 0:
        return SpaceOutlook("empties", bytes_per_day=slope)
    seen = float(at[-1] - at[0]) / DAY_S
    days = max(0.0, left) / slope
    if days > max(20 * seen, 1.0) or days > _LONGEST_DAYS:
        why = f"{_days(seen)} of history tell nothing of the time in {_days(days)}"
        return SpaceOutlook("cannot tell", bytes_per_day=slope, why=why)
    return SpaceOutlook(
        "fills", days, max(0.0, left) / high, max(0.0, left) / low if low > 0 else None, slope
    )


def _days(days: float) -> str:
    if days < 2:
        return f"{days * 24:.0f} hours" if days * 24 >= 2 else f"{days * 1440:.0f} minutes"
    return f"{days:.0f} days" if days < 3650 else "more than ten years"


@dataclass(frozen=True, slots=True)
class TargetBalance:
    """How evenly targets of a file system took what was moved."""

    targets: int
    mean: float
    """Bytes per second of a target."""
    busiest: str
    ratio: float | None
    """Of the busiest to the mean; 1 is even. None where nothing was moved."""


def balance_of(rates: Sequence[tuple[str, float]]) -> TargetBalance | None:
    """The balance of targets with their rates; None for fewer than two."""
    if len(rates) < 2:
        return None
    mean = sum(rate for _, rate in rates) / len(rates)
    busiest, most = max(rates, key=lambda each: each[1])
    return TargetBalance(len(rates), mean, busiest, most / mean if mean > 0 else None)


@dataclass(frozen=True, slots=True)
class TargetRoom:
    """How evenly targets of one kind of a file system are filled. Parts are from 0 to 1."""

    filesystem: str
    component: str
    """Such as `ost`."""
    targets: int
    fullest: str
    fullest_part: float
    emptiest: str
    emptiest_part: float
    median_part: float


def rooms_of(parts: Mapping[tuple[str, str], Sequence[tuple[str, float]]]) -> list[TargetRoom]:
    """By file system and kind of target; those with fewer than two targets are left out."""
    found = []
    for (filesystem, component), told in sorted(parts.items()):
        if len(told) < 2:
            continue
        ranked = sorted(told, key=lambda each: (each[1], each[0]))
        found.append(
            TargetRoom(
                filesystem,
                component,
                len(told),
                fullest=ranked[-1][0],
                fullest_part=ranked[-1][1],
                emptiest=ranked[0][0],
                emptiest_part=ranked[0][1],
                median_part=median(part for _, part in told),
            )
        )
    return found
