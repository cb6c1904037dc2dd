"""A step of a sweep: what its rule needs to know of a run of the workload."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.runs.interference import of_launches
from gridwright.runs.stream_sweep.record import SweepStep
from gridwright.runs.stream_sweep.rule import SweepRule
from gridwright.runs.workload_judge import WorkloadNeeds, ratio_of
from gridwright.runs.workload_record import WorkloadRecord


def sweep_rule(
    needs: WorkloadNeeds,
    launches: Iterable[str],
    *,
    most: int,
    within_s: float | None = None,
    agree: int = 2,
    allow_disturbed: bool = False,
) -> SweepRule:
    """What ends a sweep of launches of these names on a grid.

    Ratios that are required of other tests are left out, and so is the real time of the matrix: each stream
    runs it once more.
    """
    known = frozenset(launches)
    return SweepRule(
        ratio=needs.ratio,
        tests={test: ratio for test, ratio in needs.tests.items() if test in known},
        most=most,
        within_s=within_s,
        agree=agree,
        allow_disturbed=allow_disturbed,
    )


def measured_step(record: WorkloadRecord, rule: SweepRule, *, attempt: int, run: str) -> SweepStep:
    """What a run of the workload amounts to as a step; `run` is its directory in that of the sweep."""
    whole = [launch for launch in record.launches if launch.ok]
    failed = [launch for launch in record.launches if not launch.ok]
    tests = {test: ratio_of(x for x in whole if x.test == test) for test in rule.tests}
    return SweepStep(
        streams=record.streams,
        attempt=attempt,
        run=run,
        status=record.status,
        launches=len(record.launches),
        failed=len(failed),
        failure=failed[0].reason if failed else None,
        short_of_memory=any(launch.bound_by == "memory" for launch in failed),
        wall_s=record.summary.wall_s,
        real_s_mean=record.summary.real_s / len(whole) if record.summary.real_s and whole else None,
        between_s_mean=record.summary.harness_s_mean,
        queued_s_mean=record.summary.queued_s_mean,
        ratio=ratio_of(whole),
        tests={test: ratio for test, ratio in tests.items() if ratio is not None},
        shares=dict(record.summary.shares),
        disturbed=of_launches(record.launches) or None,
    )
