"""The figures of a predicted run of the workload: the same that a measured run has, where both make sense."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.errors import Finding
from gridwright.model.simulate import SimulatedLaunch, SimulationOutcome

CPU = "cpu"
"""Kind of the activity that computes; the others are named by library and operation: `data read`."""
CORE = "core"
"""Cause: computing, but with less than the cores it could use, because others had them."""


@dataclass(frozen=True, slots=True)
class LaunchPrediction:
    """One launch. Times in seconds since the start; streams and nodes count from 1.

    `bound_by` is what took the largest part of its real time, `shares` that part for every cause:
    `cpu` computing, `core` computing with fewer cores than it could use, or a library and operation.
    """

    test: str
    stream: int
    node: int
    start_s: float
    end_s: float
    cpu_s: float
    shares: Mapping[str, float]

    @property
    def real_s(self) -> float:
        """Real time."""
        return self.end_s - self.start_s

    @property
    def ratio(self) -> float | None:
        """CPU/real ratio; None for a launch that does nothing."""
        return self.cpu_s / self.real_s if self.real_s > 0.0 else None

    @property
    def bound_by(self) -> str | None:
        """The cause with the largest share."""
        return max(self.shares, key=lambda cause: self.shares[cause]) if self.shares else None


@dataclass(frozen=True, slots=True)
class TestPrediction:
    """All launches of one test; times are means."""

    __test__ = False  # no class of tests, whatever its name

    test: str
    class_: str
    launches: int
    real_s: float
    cpu_s: float
    ratio: float | None
    bound_by: str | None


@dataclass(frozen=True, slots=True)
class WorkloadPrediction:
    """A predicted run. Times in seconds, rates in bytes per second.

    `real_s` and `cpu_s` are sums over all launches, `elapsed_s` is the time from the first start to the
    last end. `ratio_mean` is the mean of the launches' CPU/real ratios, which the published tables
    print; `ratio_of_sums` is all CPU time over all real time. `shares` divides the real time of all
    launches by cause, `resources` by the resource that bound, None for none (a launch's own threads, or
    the rate of a single stream). `rates` has by `LIBRARY OPERATION` the mean rate in bins of `bin_s`.
    """

    launches: tuple[LaunchPrediction, ...] = field(repr=False)
    tests: tuple[TestPrediction, ...]
    real_s: float
    cpu_s: float
    elapsed_s: float
    ratio_mean: float | None
    ratio_stdev: float | None
    ratio_min: float | None
    ratio_max: float | None
    ratio_of_sums: float | None
    mean_concurrency: float | None
    shares: Mapping[str, float]
    bound_by: str | None
    resources: Mapping[str | None, float]
    utilisation: Mapping[str, float]
    """By resource, over the elapsed time; of resources of each node, the mean."""
    bin_s: float
    rates: Mapping[str, tuple[float, ...]] = field(repr=False)
    assumptions: tuple[str, ...]
    findings: tuple[Finding, ...]


def figures(
    outcome: SimulationOutcome,
    *,
    tests: Sequence[str],
    cpu_s: Sequence[float],
    classes: Mapping[str, str],
    resources: Sequence[str],
    assumptions: tuple[str, ...],
    findings: tuple[Finding, ...],
) -> WorkloadPrediction:
    """Sum up a simulation.

    `tests` and `cpu_s` are those of its launches in their order, `resources` names its resources.
    """
    launches = tuple(_launch(*each) for each in zip(outcome.launches, tests, cpu_s, strict=True))
    groups: dict[str, list[LaunchPrediction]] = {}
    for launch in launches:
        groups.setdefault(launch.test, []).append(launch)
    real = sum(each.real_s for each in launches)
    cpu = sum(each.cpu_s for each in launches)
    ratios = [each.ratio for each in launches if each.ratio is not None]
    shares = _shares(launches)
    return WorkloadPrediction(
        launches=launches,
        tests=tuple(_test(test, classes[test], group) for test, group in groups.items()),
        real_s=real,
        cpu_s=cpu,
        elapsed_s=outcome.end_s,
        ratio_mean=statistics.fmean(ratios) if ratios else None,
        ratio_stdev=statistics.stdev(ratios) if len(ratios) > 1 else None,
        ratio_min=min(ratios, default=None),
        ratio_max=max(ratios, default=None),
        ratio_of_sums=cpu / real if real > 0.0 else None,
        mean_concurrency=real / outcome.end_s if outcome.end_s > 0.0 else None,
        shares=shares,
        bound_by=_largest(shares),
        resources=_by_resource(outcome, resources, real),
        utilisation=_utilisation(outcome, resources),
        bin_s=outcome.bin_s,
        rates={kind: rates for kind, rates in outcome.rates.items() if kind != CPU},
        assumptions=assumptions,
        findings=findings,
    )


def _launch(launch: SimulatedLaunch, test: str, cpu_s: float) -> LaunchPrediction:
    causes: dict[str, float] = {}
    for wait in launch.waits:
        cause = CORE if wait.kind == CPU and wait.bound_by is not None else wait.kind
        causes[cause] = causes.get(cause, 0.0) + wait.seconds
    real = launch.real_s
    shares = {cause: seconds / real for cause, seconds in causes.items()} if real > 0.0 else {}
    return LaunchPrediction(
        test, launch.stream + 1, launch.node + 1, launch.start_s, launch.end_s, cpu_s, shares
    )


def _test(test: str, class_: str, launches: Sequence[LaunchPrediction]) -> TestPrediction:
    ratios = [launch.ratio for launch in launches if launch.ratio is not None]
    return TestPrediction(
        test=test,
        class_=class_,
        launches=len(launches),
        real_s=statistics.fmean(launch.real_s for launch in launches),
        cpu_s=statistics.fmean(launch.cpu_s for launch in launches),
        ratio=statistics.fmean(ratios) if ratios else None,
        bound_by=_largest(_shares(launches)),
    )


def _shares(launches: Sequence[LaunchPrediction]) -> dict[str, float]:
    """The real time of launches by cause."""
    real = sum(prediction.real_s for prediction in launches)
    found: dict[str, float] = {}
    for launch in launches:
        for cause, share in launch.shares.items():
            found[cause] = found.get(cause, 0.0) + share * launch.real_s / real
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _largest(shares: Mapping[str, float]) -> str | None:
    return max(shares, key=lambda cause: shares[cause]) if shares else None


def _by_resource(outcome: SimulationOutcome, names: Sequence[str], real: float) -> dict[str | None, float]:
    found: dict[str | None, float] = {}
    for launch in outcome.launches:
        for wait in launch.waits:
            name = names[wait.bound_by] if wait.bound_by is not None else None
            found[name] = found.get(name, 0.0) + wait.seconds / real
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _utilisation(outcome: SimulationOutcome, names: Sequence[str]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for name, used in zip(names, outcome.utilisation, strict=True):
        found.setdefault(name, []).append(used)
    return {name: statistics.fmean(used) for name, used in found.items()}
