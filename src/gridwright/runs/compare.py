"""Two runs side by side: the ratio of every figure, and how much of it is noise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist, fmean, median, stdev

from gridwright.runs.directory import LoadedRun
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.repeats import contrast, known_values
from gridwright.runs.samples import SampleRow
from gridwright.runs.verdict import counts
from gridwright.runs.workload_judge import Repeat, counting_repeats, repeats_of

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of two runs, of repeats the median of those that count. `ratio` is B/A.

    `noise` is half the width of the 95 % interval of the ratio: from the spread of the repeats in either run,
    see `gridwright.runs.repeats`; without any, from that of the samples per second, or of launches, in both
    (error propagation for a ratio of means); None without two of these each. `differs` says whether the
    ratio lies outside it. `least_change` is the least change, as a part of A, that the repeats would tell in
    four comparisons out of five; None without repeats.
    """

    library: str
    op: str
    figure: str
    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None
    differs: bool | None
    least_change: float | None = None
    repeats_a: int = 1
    repeats_b: int = 1
    """How many repeats count in it."""


def compare_runs(a: LoadedRun, b: LoadedRun) -> list[Comparison]:
    """Compare all figures that either run has; those of one run only have no ratio."""
    left, right = _phases(a), _phases(b)
    noise_a, noise_b = _spread(a.samples), _spread(b.samples)
    found = []
    for key in dict.fromkeys([*left, *right]):
        spreads = (noise_a.get(key), noise_b.get(key))
        for figure, value in _FIGURES.items():
            one, other = (known_values(map(value, side.get(key, []))) for side in (left, right))
            noise = _noise(spreads) if figure in _RATES else None
            if one or other:
                found.append(_comparison(key, figure, one, other, noise))
    return found + _compare_workloads(a, b)


def _compare_workloads(a: LoadedRun, b: LoadedRun) -> list[Comparison]:
    """Real time and CPU/real ratio of each test, then of all launches, whole ones only.

    Nothing where the two ran other data: a test at another scale is another test.
    """
    if a.workload and b.workload and a.workload.scale != b.workload.scale:
        return []
    left, right = _repeats(a), _repeats(b)
    sides = [_launches(side) for side in (left, right)]
    found = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        for figure, value in _LAUNCH_FIGURES.items():
            # Of each repeat its launches.
            own = [[known_values(map(value, each)) for each in side.get(name, [])] for side in sides]
            one, other = ([fmean(repeat) for repeat in repeats if repeat] for repeats in own)
            if not one and not other:
                continue
            noise = _noise((_error([*chain(*own[0])]), _error([*chain(*own[1])])))
            found.append(_comparison(("workload", name), figure, one, other, noise))
    if max(len(left), len(right)) > 1:
        one, other = (known_values(each.wall_s for each in side) for side in (left, right))
        found.append(_comparison(("workload", _ALL), "wall_s", one, other, None))
    return found


def _repeats(run: LoadedRun) -> list[Repeat]:
    """The repeats of its workload that count; its only one in any case."""
    if run.workload is None:
        return []
    launches = run.workload.launches
    repeats = repeats_of(launches, max(Counter(launch.repeat for launch in launches).values(), default=0))
    if len(repeats) < 2:
        return repeats
    return counting_repeats(repeats, allow_disturbed=run.workload.allow_disturbed)


def _launches(repeats: Sequence[Repeat]) -> dict[str, list[list[LaunchRecord]]]:
    """The launches of each repeat that ran to their end: by test, and all of them."""
    groups: dict[str, list[list[LaunchRecord]]] = {}
    for number, repeat in enumerate(repeats):
        for launch in repeat.launches:
            if launch.ok:
                for name in (launch.test, _ALL):
                    groups.setdefault(name, [[] for _ in repeats])[number].append(launch)
    if _ALL in groups:
        groups[_ALL] = groups.pop(_ALL)
    return groups


_ALL = "all launches"
_LAUNCH_FIGURES: dict[str, Callable[[LaunchRecord], float | None]] = {
    "launch_real_s": lambda launch: launch.real_s,
    "launch_cpu_real_ratio": lambda launch: launch.cpu_real_ratio,
}


def _error(values: Sequence[float]) -> float | None:
    """Relative standard error of the mean; None of less than two values."""
    mean = fmean(values) if values else 0.0
    return stdev(values) / len(values) ** 0.5 / mean if len(values) >= 2 and mean > 0 else None


def _cpu_per_gb(phase: PhaseRecord) -> float | None:
    if not phase.bytes or phase.cpu_user_s is None or phase.cpu_system_s is None:
        return None
    return (phase.cpu_user_s + phase.cpu_system_s) / (phase.bytes / 1e9)


_FIGURES: dict[str, Callable[[PhaseRecord], float | None]] = {
    "rate_last_bytes_per_s": lambda phase: phase.rate_last_bytes_per_s,
    "per_core_bytes_per_s": lambda phase: phase.per_core_bytes_per_s,
    "latency_p50_us": lambda phase: phase.latency_us.p50,
    "latency_p99_us": lambda phase: phase.latency_us.p99,
    "ops_per_s": lambda phase: phase.ops_per_s,
    "cpu_s_per_gb": _cpu_per_gb,
}
_RATES = frozenset({"rate_last_bytes_per_s", "per_core_bytes_per_s"})


def _phases(run: LoadedRun) -> dict[tuple[str, str], list[PhaseRecord]]:
    """The repeats of each phase that count, or its last one; a sweep has several."""
    phases: dict[tuple[str, str], list[PhaseRecord]] = {}
    for library in run.iotest.libraries if run.iotest else []:
        for phase in library.phases:
            key = (library.library, phase.op)
            if phase.repeat is None:
                phases[key] = [phase]
            elif counts(phase):
                phases.setdefault(key, []).append(phase)
    return phases


def _spread(samples: Sequence[SampleRow]) -> dict[tuple[str, str], float]:
    """Relative standard error of the mean rate, by library and phase, over whole seconds."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in samples:
        seconds = row.interval_s or 0.0
        if row.library is not None and row.op not in (None, "workload") and seconds > 0.5:
            rates[row.library, row.op].append(row.moved_bytes / seconds)
    errors = {key: _error(values) for key, values in rates.items()}
    return {key: error for key, error in errors.items() if error is not None}


def _noise(spreads: tuple[float | None, float | None]) -> float | None:
    a, b = spreads
    return None if a is None or b is None else _Z95 * (a**2 + b**2) ** 0.5


def _comparison(
    key: tuple[str, str], figure: str, a: Sequence[float], b: Sequence[float], noise: float | None
) -> Comparison:
    """Compare the values of the repeats of two runs; `noise` is what else is known of it, relative."""
    x, y = (median(values) if values else None for values in (a, b))
    ratio = y / x if x and y is not None else None
    width = noise * ratio if noise is not None and ratio is not None else None
    differs = abs(ratio - 1) > width if ratio is not None and width is not None else None
    least = None
    if told := contrast(a, b):
        width, differs, least = told.noise, told.differs, told.least_change
    return Comparison(*key, figure, x, y, ratio, width, differs, least, len(a), len(b))
