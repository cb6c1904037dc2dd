"""Watches the samples of a phase: is its rate steady, does it fall or stall, and how long will fsync take.

Cloud volumes and NICs burst for 5 to 65 minutes (paper 002, table of instance types), and a page cache
absorbs the first seconds of every write; a short test shows the burst. The rule is stated in `RULE` and
printed with every result.

For a file system on a device of the node the kernel tells what is in memory (Dirty and Writeback of
/proc/meminfo), for the node as a whole, so other writers count, too: an fsync waits behind them as well.
What clients of servers hold back is in nobody's figures: there the rate of an earlier phase of this test
tells.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from gridwright.errors import Finding
from gridwright.iotest.engine import Sample
from gridwright.iotest.outcome import Outcome
from gridwright.runs.iotest_events import Progress
from gridwright.runs.phase_record import (
    LASTING_PART,
    Falling,
    PhaseRecord,
    RateLevel,
    Stall,
    Steady,
    lasting_level,
)
from gridwright.units import format_bytes, format_rate

CHANGE = 0.10
"""A fall of less than a tenth over the phase is noise, as in `gridwright.iotest.steadiness`."""
FEWEST = 10
"""Fewer samples than this show no trend."""
_MOST = 120
"""Longer series are averaged down to this many points; the slope takes time by their square."""
SIGMAS = 4.0
"""How far beyond its noise a fall must lie, in standard errors."""
LOWER = 0.96
"""What is lower than all before by less than 4 % has been there before: a trough of a sawtooth."""


def with_levels(record: PhaseRecord, limit_s: float | None, history: Sequence[Sample]) -> PhaseRecord:
    """The record of a phase of at most `limit_s`, with the levels of its rate, and its fall at the end.

    Only the time counts in which all streams moved data: neither the closing fsync, nor what came after the
    first of them had moved all it had to.
    """
    found_steady = record.steady is not None and record.steady.steady
    if found_steady or record.op == "metadata" or record.status != "complete" or record.seconds_first is None:
        return record
    until = record.seconds_first - (record.fsync_s or 0.0)
    if limit_s is not None:
        until = min(until, limit_s)
    times, rates = _rate_series(history)
    # A sample is taken a little after its second.
    whole = sum(end <= until + (end - begin) / 2 for begin, end in zip([0.0, *times], times, strict=False))
    times, rates = times[:whole], rates[:whole]
    return replace(record, levels=_levels_down(times, rates), falling=still_falling(times, rates))


def _levels_down(times: Sequence[float], rates: Sequence[float]) -> list[RateLevel]:
    """The levels of a rate that came down to one lower than it ever was for as long; none of any other.

    Lower by `CHANGE` than in every stretch of that length before, as a trough of a sawtooth is not, and by
    `SIGMAS` standard errors of the difference, as chance is not.
    """
    if len(rates) < FEWEST:
        return []
    found = [RateLevel(each.start_s, each.end_s, each.rate) for each in levels(times, rates)]
    last = lasting_level(found)
    if last is None or last.start_s <= times[0]:
        return []
    before = [rate for time, rate in zip(times, rates, strict=True) if time <= last.start_s]
    width = min(len(before), len(rates) - len(before))
    lowest = min(fmean(before[at : at + width]) for at in range(len(before) - width + 1))
    noise = _noise(rates) * (1 / len(before) + 1 / (len(rates) - len(before))) ** 0.5
    return found if last.bytes_per_s < min((1 - CHANGE) * lowest, lowest - SIGMAS * noise) else []


def _noise(series: Sequence[float]) -> float:
    """The standard deviation of one point of a series, whatever its slope.

    Differences of differences leave out a slope; for normal noise their median is 1.652 sigma.
    """
    found = [abs(a - 2 * b + c) for a, b, c in zip(series, series[1:], series[2:], strict=False)]
    return median(found) / 1.652


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


def burst_finding(library: str, record: PhaseRecord) -> Iterator[Finding]:
    """Tell where the rate at the end is judged, and not that over the whole phase."""
    lasting, whole = record.lasting, record.rate_last_bytes_per_s
    if lasting is None or whole is None or lasting.bytes_per_s >= (1 - CHANGE) * whole:
        return
    before = [each for each in record.levels if each.end_s <= lasting.start_s]
    highest = max(before, key=lambda each: each.bytes_per_s)
    last_s = lasting.end_s - lasting.start_s
    yield Finding(
        "warning",
        "burst",
        f"library {library}, phase {record.op}: {format_rate(highest.bytes_per_s)} held for "
        f"{highest.end_s - highest.start_s:.0f} s ({format_bytes(highest.bytes)}), and "
        f"{format_rate(lasting.bytes_per_s)} for the last {last_s:.0f} s: that is judged",
        "require what lasts; credits of a volume or an instance, a cache of a controller or of a server, and "
        "a limit that begins late look so",
    )


def _rate_series(history: Sequence[Sample]) -> tuple[list[float], list[float]]:
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
    fold = -(-len(rates) // _MOST)
    series = [fmean(rates[i : i + fold]) for i in range(0, len(rates), fold)]
    count, width = len(series), max(3, len(series) // 8)
    quarter = count - max(width, count // 4)
    end = median(series[-width:])
    # The first sample has the start of the streams in it.
    before = [median(series[i : i + width]) for i in range(1, quarter - width + 1)]
    noise = _noise(series)
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


_MAX_POINTS = 600
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
    return min(600.0, longest_s * LASTING_PART)


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
    fold = -(-len(rates) // _MAX_POINTS)
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
    return levels(*_rate_series(history))


Unwritten = Callable[[], int | None]
"""Counts pages of files in an fsync that are not written yet; None where the kernel does not tell."""
_LOOK_S = 1.0
_LEAST_PAUSES = 20
"""Pauses between looks are this many times as long as a look."""
UNUSUAL = 20
"""A request that took seconds is a stall if it took this many times as long as half of all requests did:
blocks of 64 MiB take seconds on a slow disk, and nothing is wrong then."""


def stalls_of(outcome: Outcome) -> list[Stall]:
    """The stalls of a phase, by its outcome; those of several streams that overlap are one.

    The engine notes requests of 3 s and more: a failing server takes longer to be replaced (measured: 6 s
    for a master of MooseFS that was down for 4 s), and a healthy one is far from it.
    """
    usual = ((outcome.latency_us and outcome.latency_us.p50) or 0.0) / 1e6
    single = sorted(
        (stall.start_s, stall.seconds, number)
        for number, stream in enumerate(outcome.streams)
        for stall in stream.stalls
        if stall.seconds >= UNUSUAL * usual
    )
    stalls: list[Stall] = []
    end, streams = 0.0, set()
    for start, seconds, number in single:
        if stalls and start <= end:
            streams.add(number)
            stalls[-1] = Stall(stalls[-1].start_s, max(stalls[-1].seconds, seconds), len(streams))
            end = max(end, start + seconds)
        else:
            end, streams = start + seconds, {number}
            stalls.append(Stall(start, seconds, 1))
    return stalls


def stall_finding(stall: Stall, *, library: str, op: str, streams: int, node: str | None) -> Finding:
    """Tell the user of a stall, of a phase of so many streams on the node."""
    on = f" on node {node}" if node else ""
    who = "all streams" if stall.streams == streams else f"{stall.streams} of {streams} streams"
    return Finding(
        "warning",
        "stalled",
        f"library {library}, phase {op}{on}: {who} stood still for up to {stall.seconds:.1f} s, from "
        f"{stall.start_s:.1f} s on; that time is in the rate",
        "look what the file system's servers and the network did then: `dmesg`, the logs of the servers",
    )


@dataclass(slots=True)
class StallWatch:
    """Notices that nothing moves: no byte, no operation; in an fsync, no page of what is flushed.

    Before Linux 6.5 no kernel tells of the pages of one file; then those of the node count. Others dirty
    these all the time on a busy node, so that an fsync that hangs there may not be noticed.
    """

    _moved: tuple[int, int, int] = (0, 0, 0)
    _dirty: tuple[str, ...] = ()
    _unwritten: int | None = None
    _since: float = field(default_factory=time.monotonic)
    _look_at: float = 0.0

    def quiet_s(self, progress: Sample, unwritten: Unwritten | None = None) -> float:
        """Look, and say for how many seconds nothing has moved; `unwritten` is given during an fsync."""
        now = time.monotonic()
        moved = (progress.read_bytes, progress.written_bytes, progress.operations)
        if moved != self._moved or (unwritten is not None and self._pages_move(now, unwritten)):
            self._moved, self._since = moved, now
        return now - self._since

    def _pages_move(self, now: float, unwritten: Unwritten) -> bool:
        if now < self._look_at:
            return False
        pages = unwritten()
        # Of a file that fills memory, each look goes through millions of pages.
        self._look_at = now + max(_LOOK_S, _LEAST_PAUSES * (time.monotonic() - now))
        if pages is not None:
            before, self._unwritten = self._unwritten, pages
            # More of them are those of a stream that has only now begun to flush.
            return before is not None and pages < before
        dirty, self._dirty = self._dirty, _dirty()
        return self._dirty != dirty


def _dirty() -> tuple[str, ...]:
    """Dirty pages and pages under writeback: an fsync that works changes them."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return tuple(line for line in lines if line.startswith(("Dirty:", "Writeback:")))


WINDOW_S = 4.0
"""A rate is that of the last seconds: flushing comes in bursts."""
LEAST_S = 1.0
"""A rate over less says nothing."""
_SLOWEST = 1 << 18
"""Bytes a second; below that nothing is known rather than that it takes an hour."""
_MEMINFO = Path("/proc/meminfo")
_COUNTED = ("Dirty:", "Writeback:", "NFS_Unstable:", "WritebackTmp:")


@dataclass(slots=True)
class FlushForecast:
    """Looks at what is unflushed as a phase goes on; times in seconds by any clock that never goes back."""

    _seen: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Time, bytes written so far, bytes in memory."""

    def see(self, now: float, written_bytes: int, unflushed_bytes: int) -> None:
        """Take in a moment."""
        self._seen.append((now, written_bytes, unflushed_bytes))
        while self._seen[-1][0] - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()

    @property
    def seconds(self) -> float | None:
        """How long what is in memory now takes to the disk; None where too little is known.

        What reached the disk is what was written and did not stay in memory. It is over the rate of the last
        seconds, with the streams that write meanwhile: an fsync that has the disk for itself is no slower.
        """
        if not self._seen:
            return None
        (then, written, unflushed), (now, written_now, unflushed_now) = self._seen[0], self._seen[-1]
        if now - then < LEAST_S:
            return None
        rate = ((written_now - written) - (unflushed_now - unflushed)) / (now - then)
        return unflushed_now / rate if rate > _SLOWEST else None


@dataclass(slots=True)
class MachineForecasts:
    """Forecasts of nodes by their machine: nodes of a lab share its memory, and each tells all of it."""

    _of: dict[str, FlushForecast] = field(default_factory=dict)

    def see(self, now: float, nodes: Iterable[tuple[str, Progress]]) -> None:
        """Take in a moment of all nodes, each with the machine that it is on."""
        machines: dict[str, list[Progress]] = {}
        for machine, progress in nodes:
            if progress.unflushed_bytes is not None:
                machines.setdefault(machine, []).append(progress)
        for machine, those in machines.items():
            self._of.setdefault(machine, FlushForecast()).see(
                now,
                sum(each.written_bytes for each in those),
                max(each.unflushed_bytes or 0 for each in those),
            )

    @property
    def seconds(self) -> float | None:
        """How long the slowest machine takes; None where too little is known of all."""
        told = (each.seconds for each in self._of.values())
        return max((each for each in told if each is not None), default=None)


def by_earlier_rate(written_bytes: int, elapsed_s: float, rate_bytes_per_s: float | None) -> float | None:
    """How long all that was written takes yet, at the rate that an earlier phase had with its fsync.

    That rate is bytes over all of the time, so it holds for any mix of memory and disk. None where there is
    none.
    """
    return max(0.0, written_bytes / rate_bytes_per_s - elapsed_s) if rate_bytes_per_s else None


def unflushed_bytes() -> int | None:
    """Bytes of this node that wait for a disk or a server; None where the kernel does not tell."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED)) << 10
    except (OSError, ValueError, IndexError):
        return None
