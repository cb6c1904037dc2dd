"""Watches the samples of a phase and says when its rate is steady; see `gridwright.iotest.steadiness`.

Decides when a rate is steady, from change points in the per-second samples.

Cloud volumes and NICs burst for 5 to 65 minutes (paper 002, table of instance types), and a page
cache absorbs the first seconds of every write; a short test shows the burst. The rule is stated
in `RULE` and printed with every result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gridwright.iotest.engine import Sample
from gridwright.iotest.falling import rate_series
from gridwright.runs.phase_record import Steady

CHANGE = 0.10
"""A change of less than a tenth of the rate is noise."""
MAX_POINTS = 600
"""Longer series are averaged down to this many points before the search."""

RULE = (
    "Change points (PELT on the mean of the logarithm of the rate per second, kept where the mean "
    "changes by a tenth or more) cut the phase into levels. It ends before its longest time only when a "
    "drop that came no sooner than 1/20 of that time was followed by 1/4 of it (at most 10 min) without "
    "another change. The steady rate is the mean of the last level, if that lasted 1/4 of the longest "
    "time (at most 10 min) and its halves differ by less than a tenth; the peak rate is the mean of the "
    "highest level."
)


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of even rate: seconds since the start of the phase, and bytes/s."""

    start_s: float
    end_s: float
    rate: float
    drift: float = 0.0
    """Change from its first half to its second, as a part of its rate."""

    @property
    def lasted_s(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


def hold_s(longest_s: float) -> float:
    """How long a level must last to count as steady, for a phase of at most `longest_s`."""
    return min(600.0, longest_s / 4)


def levels(times_s: Sequence[float], rates: Sequence[float]) -> list[Level]:
    """Cut a series of rates (bytes/s, sampled up to `times_s`) into levels.

    PELT (Killick, Fearnhead, Eckley: Optimal detection of changepoints with a linear
    computational cost, JASA 2012) as in `ruptures`, penalty 3 ln(n) sigma^2 with sigma from the
    median absolute difference of neighbours, so that a slow drift does not count as noise. The search
    is on the logarithm of the rate, since noise grows with it.
    """
    import numpy as np
    import ruptures

    if not rates:
        return []
    fold = -(-len(rates) // MAX_POINTS)
    series = np.array([np.mean(rates[i : i + fold]) for i in range(0, len(rates), fold)])
    ends = [times_s[min(i + fold, len(rates)) - 1] for i in range(0, len(rates), fold)]
    if len(series) < 4:
        return [Level(0.0, ends[-1], float(series.mean()))]
    scale = float(series.mean()) or 1.0
    # A second in which nothing moved (an fsync) is a low rate, not minus infinity.
    normal = np.log(np.maximum(series / scale, 0.01))
    # For normal noise the median absolute difference of neighbours is 0.954 sigma.
    sigma = max(float(np.median(np.abs(np.diff(normal)))) / 0.954, 0.01)
    penalty = 3.0 * float(np.log(len(normal))) * sigma**2
    # The linear kernel is the cost of a changed mean, and KernelCPD is written in C.
    search = ruptures.KernelCPD(kernel="linear", min_size=2).fit(normal.reshape(-1, 1))
    cuts = search.predict(pen=penalty)
    found: list[Level] = []
    start = 0
    for cut in cuts:
        began = ends[start - 1] if start else 0.0
        found.append(Level(began, ends[cut - 1], float(series[start:cut].mean())))
        start = cut
    return [_with_drift(level, ends, list(map(float, series))) for level in _merge(found)]


def _with_drift(level: Level, ends: Sequence[float], series: Sequence[float]) -> Level:
    rates = [rate for end, rate in zip(ends, series, strict=True) if level.start_s < end <= level.end_s]
    half = len(rates) // 2
    if half == 0 or level.rate <= 0:
        return level
    return replace(level, drift=(fmean(rates[-half:]) - fmean(rates[:half])) / level.rate)


def _merge(found: list[Level]) -> list[Level]:
    """Join neighbours whose rates differ by less than `CHANGE`."""
    merged: list[Level] = []
    for level in found:
        if merged and abs(level.rate - merged[-1].rate) < CHANGE * max(merged[-1].rate, level.rate):
            before = merged.pop()
            total = before.rate * before.lasted_s + level.rate * level.lasted_s
            span = level.end_s - before.start_s
            merged.append(Level(before.start_s, level.end_s, total / span if span else level.rate))
        else:
            merged.append(level)
    return merged


def may_end(found: Sequence[Level], longest_s: float) -> bool:
    """Say whether a phase of at most `longest_s` may end now, by `RULE`."""
    if len(found) < 2:
        return False
    last, before = found[-1], found[-2]
    drop = last.rate < before.rate * (1 - CHANGE)
    late, long = last.start_s >= longest_s / 20, last.lasted_s >= hold_s(longest_s)
    return drop and late and long and abs(last.drift) < CHANGE


def steady_rate(found: Sequence[Level], longest_s: float) -> Steady | None:
    """Name the peak, how long it lasted, and the steady rate; None without samples."""
    if not found:
        return None
    peak = max(found, key=lambda level: level.rate)
    last = found[-1]
    # A phase that ran to its longest time may end a sample short of it.
    steady = last.lasted_s >= 0.95 * hold_s(longest_s) and abs(last.drift) < CHANGE
    return Steady(
        steady=steady,
        rule=RULE,
        peak_bytes_per_s=peak.rate,
        peak_lasted_s=peak.lasted_s,
        steady_bytes_per_s=last.rate if steady else None,
        change_points_s=[level.start_s for level in found[1:]],
    )


class Steadiness:
    """Ends a phase of at most `longest_s` when its rate is steady; None for one that ends otherwise."""

    def __init__(self, longest_s: float | None) -> None:
        self._longest = longest_s
        self._next = 0.0
        self._used = 0

    def reached(self, history: Sequence[Sample], *, syncing: bool) -> bool:
        """Look at all samples so far, and say whether the phase may end."""
        if self._longest is None or not history:
            return False
        elapsed = history[-1].elapsed_s
        # The samples of the closing fsync are no rate.
        if not syncing and elapsed <= self._longest:
            self._used = len(history)
        if elapsed < self._next:
            return False
        self._next = elapsed + max(5 * history[0].elapsed_s, self._longest / 200)
        return may_end(_levels(history[: self._used]), self._longest)

    def result(self, history: Sequence[Sample]) -> Steady | None:
        """What was found, once the phase has ended."""
        if self._longest is None:
            return None
        return steady_rate(_levels(history[: self._used]), self._longest)


def _levels(history: Sequence[Sample]) -> list[Level]:
    return levels(*rate_series(history))
