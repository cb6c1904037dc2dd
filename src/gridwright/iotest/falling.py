"""Decides whether the rate of a phase still fell when the phase ended, from its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean, median

from gridwright.errors import Finding
from gridwright.iotest.engine import Sample
from gridwright.runs.phase_record import Falling, PhaseRecord
from gridwright.units import format_rate

CHANGE = 0.10
"""A fall of less than a tenth over the phase is noise, as in `gridwright.iotest.steadiness`."""
FEWEST = 10
"""Fewer samples than this show no trend."""
MOST = 120
"""Longer series are averaged down to this many points; the slope takes time by their square."""
SIGMAS = 4.0
"""How far beyond its noise a fall must lie, in standard errors."""
LOWER = 0.96
"""What is lower than all before by less than 4 % has been there before: a trough of a sawtooth."""


def with_fall(record: PhaseRecord, limit_s: float | None, history: Sequence[Sample]) -> PhaseRecord:
    """The record of a phase of at most `limit_s`, with its fall where it still fell at its end.

    Only the time counts in which all streams moved data: neither the closing fsync, nor what came after the
    first of them had moved all it had to.
    """
    found_steady = record.steady is not None and record.steady.steady
    if found_steady or record.op == "metadata" or record.status != "complete" or record.seconds_first is None:
        return record
    until = record.seconds_first - (record.fsync_s or 0.0)
    if limit_s is not None:
        until = min(until, limit_s)
    times, rates = rate_series(history)
    # A sample is taken a little after its second.
    whole = sum(end <= until + (end - begin) / 2 for begin, end in zip([0.0, *times], times, strict=False))
    return replace(record, falling=still_falling(times[:whole], rates[:whole]))


def falling_finding(library: str, record: PhaseRecord) -> Iterator[Finding]:
    """Tell where the figure of a phase may be above what lasts."""
    fell = record.falling
    if fell is not None:
        yield Finding(
            "warning",
            "still-falling",
            f"library {library}, phase {record.op}: the rate still fell when the phase ended, from "
            f"{format_rate(fell.from_bytes_per_s)} to {format_rate(fell.to_bytes_per_s)} within its last "
            f"{fell.over_s:.0f} s; what lasts may be less than its figure",
            "measure until it is steady: gridwright iotest --until-steady, or longer phases (--seconds 10m)",
        )


def rate_series(history: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """Times (s since the start) at which intervals between samples end, and the rates in them (bytes/s)."""
    times, rates = [], []
    before = Sample(0.0, 0, 0, 0)
    for sample in history:
        moved = sample.read_bytes + sample.written_bytes - before.read_bytes - before.written_bytes
        span = sample.elapsed_s - before.elapsed_s
        if span > 0:
            times.append(sample.elapsed_s)
            rates.append(moved / span)
        before = sample
    return times, rates


def still_falling(times: Sequence[float], rates: Sequence[float]) -> Falling | None:
    """What a rate (bytes/s, sampled up to `times` in s) fell from and to, if it fell until the end.

    It did where the median of the last eighth is below everything before, and either a tenth or more below
    the eighth before the last quarter (a drop that has not lasted a quarter of the phase), or at the end of a
    slope: over the last half the rate fell by half of `CHANGE` or more (Theil-Sen), and it went on in the
    last quarter. Noise is told from both by the median difference of neighbours.
    """
    if len(rates) < FEWEST or not any(rates):
        return None
    fold = -(-len(rates) // MOST)
    series = [fmean(rates[i : i + fold]) for i in range(0, len(rates), fold)]
    count, width = len(series), max(3, len(series) // 8)
    quarter = count - max(width, count // 4)
    end = median(series[-width:])
    # The first sample has the start of the streams in it.
    before = [median(series[i : i + width]) for i in range(1, quarter - width + 1)]
    # Differences of differences leave out a slope; for normal noise their median is 1.652 sigma.
    noise = (
        median(abs(a - 2 * b + c) for a, b, c in zip(series, series[1:], series[2:], strict=False)) / 1.652
    )
    # How far into its trough the last sample of a sawtooth came is chance: by one point of the series, twice.
    step = abs(_fall(series[-width:])) / (width - 1)
    margin = max(2 * 1.25 * noise / width**0.5, 2 * step)
    if not before or end >= min(LOWER * min(before), min(before) - margin):
        return None
    held = median(series[quarter - width : quarter])
    if held - end >= max(CHANGE * held, SIGMAS * noise * (2 / width) ** 0.5):
        return Falling(held, end, times[-1] - times[_index(quarter, fold, times)])
    half = series[count // 2 :]
    fell, lately = _fall(half), _fall(series[quarter:])
    # The standard error of a slope over n points, times n, is sigma (12 / n)^0.5.
    if fell >= max(CHANGE / 2 * fmean(half), SIGMAS * noise * (12 / len(half)) ** 0.5) and lately > fell / 4:
        middle = half[0] if len(half) < width else median(half[:width])
        return Falling(middle, end, times[-1] - times[_index(count // 2, fold, times)])
    return None


def _index(point: int, fold: int, times: Sequence[float]) -> int:
    """The sample with which a point of the folded series begins; the one before, whose time it begins at."""
    return max(0, min(point * fold, len(times)) - 1)


def _fall(series: Sequence[float]) -> float:
    """By how much a series falls from its first point to its last: the median of the slopes of all pairs."""
    numbered = list(enumerate(series))
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(numbered, 2)]
    return -median(slopes) * (len(series) - 1)
