"""Two runs side by side: the ratio of every figure, and how much of it is noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any

from gridwright.runs.directory import LoadedRun
from gridwright.runs.records import PhaseRecord
from gridwright.runs.workload_record import LaunchRecord

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of two runs. `ratio` is B/A.

    `noise` is half the width of the 95 % interval of the ratio, from the spread of the samples
    per second in both runs (error propagation for a ratio of means); None without two samples
    each. `differs` says whether the ratio lies outside it.
    """

    library: str
    op: str
    figure: str
    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None
    differs: bool | None


def compare_runs(a: LoadedRun, b: LoadedRun) -> list[Comparison]:
    """Compare all figures that either run has; those of one run only have no ratio."""
    left, right = _phases(a), _phases(b)
    noise_a, noise_b = _spread(a.samples), _spread(b.samples)
    found = []
    for key in dict.fromkeys([*left, *right]):
        spreads = (noise_a.get(key), noise_b.get(key))
        one, other = left.get(key), right.get(key)
        for figure, value in _FIGURES.items():
            x = value(one) if one else None
            y = value(other) if other else None
            if x is None and y is None:
                continue
            noise = _noise(spreads) if figure in _RATES else None
            found.append(_comparison(key, figure, x, y, noise))
    return found + _compare_workloads(a, b)


def _compare_workloads(a: LoadedRun, b: LoadedRun) -> list[Comparison]:
    """Real time and CPU/real ratio of each test, then of all launches, whole ones only.

    Nothing where the two ran other data: a test at another scale is another test.
    """
    if a.workload and b.workload and a.workload.scale != b.workload.scale:
        return []
    left, right = _launches(a), _launches(b)
    found = []
    for name in dict.fromkeys([*left, *right]):
        for figure, value in _LAUNCH_FIGURES.items():
            one, other = (
                [each for each in map(value, side.get(name, [])) if each is not None]
                for side in (left, right)
            )
            if not one and not other:
                continue
            noise = _noise((_error(one), _error(other)))
            x, y = (fmean(values) if values else None for values in (one, other))
            found.append(_comparison(("workload", name), figure, x, y, noise))
    return found


def _launches(run: LoadedRun) -> dict[str, list[LaunchRecord]]:
    """The launches that ran to their end, by test, and all of them."""
    whole = [each for each in (run.workload.launches if run.workload else []) if each.ok]
    groups: dict[str, list[LaunchRecord]] = defaultdict(list)
    for launch in whole:
        groups[launch.test].append(launch)
    return {**groups, "all launches": whole} if whole else {}


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


_FIGURES: dict[str, Any] = {
    "rate_last_bytes_per_s": lambda phase: phase.rate_last_bytes_per_s,
    "per_core_bytes_per_s": lambda phase: phase.per_core_bytes_per_s,
    "latency_p50_us": lambda phase: phase.latency_us.p50,
    "latency_p99_us": lambda phase: phase.latency_us.p99,
    "ops_per_s": lambda phase: phase.ops_per_s,
    "cpu_s_per_gb": _cpu_per_gb,
}
_RATES = frozenset({"rate_last_bytes_per_s", "per_core_bytes_per_s"})


def _phases(run: LoadedRun) -> dict[tuple[str, str], PhaseRecord]:
    """The last phase of each kind; a sweep has several."""
    libraries = run.iotest.libraries if run.iotest else []
    return {(lib.library, phase.op): phase for lib in libraries for phase in lib.phases}


def _spread(samples: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Relative standard error of the mean rate, by library and phase, over whole seconds."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in samples:
        if row["library"] is not None and row["op"] != "workload" and row["interval_s"] > 0.5:
            moved = row["read_bytes"] + row["written_bytes"]
            rates[row["library"], row["op"]].append(moved / row["interval_s"])
    return {
        key: stdev(values) / len(values) ** 0.5 / fmean(values)
        for key, values in rates.items()
        if len(values) >= 2 and fmean(values) > 0
    }


def _noise(spreads: tuple[float | None, float | None]) -> float | None:
    a, b = spreads
    return None if a is None or b is None else _Z95 * (a**2 + b**2) ** 0.5


def _comparison(
    key: tuple[str, str], figure: str, a: float | None, b: float | None, noise: float | None
) -> Comparison:
    ratio = b / a if a and b is not None else None
    width = noise * ratio if noise is not None and ratio is not None else None
    differs = abs(ratio - 1) > width if ratio is not None and width is not None else None
    return Comparison(key[0], key[1], figure, a, b, ratio, width, differs)
