"""Repeats of a test: their median, their spread, and the least change that so many of them can tell.

The median stands for a test that was repeated: one repeat that went wrong does not move it. Its standard
error is that of the mean, s/sqrt(n), times sqrt(pi/2), which is right for many repeats with normal noise and
too large for few (Kendall and Stuart, The Advanced Theory of Statistics, volume 1); of two values the median
is the mean. Intervals are those of Student's t ("The probable error of a mean", Biometrika 6, 1908); where
two runs have unlike numbers of repeats, with Welch's degrees of freedom (Biometrika 34, 1947). The least
change that a comparison can tell is the non-centrality at which its t exceeds the bound with the wanted
power, in standard errors (Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, 1988,
chapter 2, whose conventions 95 % and 80 % are).

Only the standard library is used until a quantile is asked for: nodes have no more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridwright.messages import Extensible

CONFIDENCE = 0.95
"""Of an interval, and of the answer that a requirement is met."""
POWER = 0.8
"""How often a comparison tells a change as large as the least it can tell: four times out of five."""
MAX_REPEATS = 100
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedFigure(Extensible):
    """A figure over the repeats of a test; null where too few of them count."""

    figure: str
    """The key of the figure in the record of one repeat, such as `per_core_bytes_per_s`."""
    of: str | None = None
    """The operation or the test; null for the whole workload."""
    ran: int
    """How many repeats were begun."""
    values: list[float]
    """Those of the repeats that count, in their order; disturbed, cached and unfinished ones do not."""
    median: float | None
    spread: float | None
    """Standard deviation of the sample (n - 1), as a part of the median."""
    lowest: float | None
    highest: float | None
    least_change: float | None
    """The least change, as a part of the median, that another run of as many repeats and of the same spread
    tells in four comparisons out of five."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two runs of one figure: the ratio of the medians B/A, and what their repeats can tell of it.

    `noise` is half the width of the 95 % interval of the ratio, and `differs` says whether 1 lies outside it.
    `least_change` is the least change, as a part of A, that these repeats tell in four comparisons of five.
    """

    ratio: float
    noise: float
    differs: bool
    least_change: float


def repeated(figure: str, values: Sequence[float], *, ran: int, of: str | None = None) -> RepeatedFigure:
    """Sum up the values of one figure in the repeats that count, out of `ran` that were begun."""
    median = statistics.median(values) if values else None
    several = len(values) > 1 and median is not None and median > 0
    other = contrast(values, values)
    return RepeatedFigure(
        figure=figure,
        of=of,
        ran=ran,
        values=list(values),
        median=median,
        spread=statistics.stdev(values) / median if several and median else None,
        lowest=min(values, default=None),
        highest=max(values, default=None),
        least_change=other.least_change if other else None,
    )


def contrast(a: Sequence[float], b: Sequence[float]) -> Contrast | None:
    """Compare the values of two runs; None without a repeat in either, or where one is not above zero.

    By logarithms, so that B against A tells the same as A against B however wide they spread. A run of one
    value alone is taken to have the spread of the other.
    """
    if max(len(a), len(b)) < 2 or not a or not b or min(*a, *b) <= 0:
        return None
    spreads = [statistics.stdev(map(math.log, each)) if len(each) > 1 else None for each in (a, b)]
    known = next(spread for spread in spreads if spread is not None)
    numbers = [len(a), len(b)]
    errors = [
        _error(known if spread is None else spread, number)
        for spread, number in zip(spreads, numbers, strict=True)
    ]
    error, freedom = math.hypot(*errors), _freedom(errors, numbers)
    bound = _quantile((1 + CONFIDENCE) / 2, freedom)
    ratio = statistics.median(b) / statistics.median(a)
    width = bound * error
    differs = abs(math.log(ratio)) > width
    return Contrast(
        ratio, ratio * math.sinh(width), differs, math.expm1(_noncentrality(bound, freedom) * error)
    )


@dataclass(frozen=True, slots=True)
class PairedContrast:
    """Values that were measured two by two, side by side: the ratio B/A, and what the pairs can tell of it.

    `ratio` is the geometric mean of the pairs' own ratios, `low` and `high` bound its 95 % interval, and
    `differs` says whether 1 lies outside it. `least_change` is the least change, as a part of A, that so many
    pairs with such a spread tell in four comparisons of five.
    """

    ratio: float
    low: float
    high: float
    differs: bool
    least_change: float


LEAST_PAIRS = 3
"""Of fewer, the interval is of no use: that of two pairs is six times as wide as that of four."""


def paired(a: Sequence[float], b: Sequence[float]) -> PairedContrast | None:
    """Compare values measured in pairs; None for less than three pairs, or where one is not above zero.

    Student's t of the logarithms of the pairs' ratios (the paired t test): what drifts from pair to pair,
    such as the load of servers, is in both values of a pair and falls out. It is assumed that logarithms of
    ratios scatter normally; one pair that went wrong widens the interval, and so hides a difference rather
    than making one up.
    """
    if len(a) != len(b) or len(a) < LEAST_PAIRS or min(*a, *b) <= 0:
        return None
    logs = [math.log(second / first) for first, second in zip(a, b, strict=True)]
    mean, number = statistics.fmean(logs), len(logs)
    error, freedom = statistics.stdev(logs) / math.sqrt(number), float(number - 1)
    bound = _quantile((1 + CONFIDENCE) / 2, freedom)
    width = bound * error
    return PairedContrast(
        ratio=math.exp(mean),
        low=math.exp(mean - width),
        high=math.exp(mean + width),
        differs=abs(mean) > width,
        least_change=math.expm1(_noncentrality(bound, freedom) * error),
    )


def reaches(values: Sequence[float], required: float, *, at_most: bool = False) -> bool | None:
    """Whether the median of repeats reaches what is required (or, `at_most`, does not go beyond it).

    False where the median misses it; None where it reaches it, but by no more than chance can do: where the
    one-sided 95 % limit of the median lies on the other side, or less than two repeats count.
    """
    if not values:
        return None
    median = statistics.median(values)
    margin = required - median if at_most else median - required
    if margin < 0:
        return False
    if len(values) < 2:
        return None
    error = _error(statistics.stdev(values), len(values))
    return True if margin >= _quantile(CONFIDENCE, len(values) - 1) * error else None


def _error(deviation: float, number: int) -> float:
    """The standard error of the median of so many values."""
    return deviation / math.sqrt(number) * (_MEDIAN_ERROR if number > 2 else 1.0)


def _freedom(errors: Sequence[float], numbers: Sequence[int]) -> float:
    """Degrees of freedom of a difference: Student's for like numbers, which unlike spreads hardly disturb."""
    if min(numbers) == 1 or len({*numbers}) == 1 or not any(errors):
        return float(sum(number - 1 for number in numbers))
    total = sum(error**2 for error in errors) ** 2
    return total / sum(error**4 / (number - 1) for error, number in zip(errors, numbers, strict=True))


def _quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _noncentrality(bound: float, freedom: float) -> float:
    """The noncentrality, in standard errors, with which t exceeds `bound` with the required power."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(freedom, 1 - POWER, bound))


def known_values(values: Iterable[float | None]) -> list[float]:
    """Those that were measured."""
    return [value for value in values if value is not None]
