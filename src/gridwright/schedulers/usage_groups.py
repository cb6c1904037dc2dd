"""Sums the records of jobs by user, account, queue or name of job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from gridwright.schedulers.job import JobState
from gridwright.schedulers.usage import JobUsage

BY: Mapping[str, Callable[[JobUsage], str | None]] = {
    "user": lambda job: job.user,
    "account": lambda job: job.account,
    "queue": lambda job: job.queue,
    "job-name": lambda job: job.name,
}
"""What jobs can be put together by."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroup:
    """What jobs used together. None is what is known of none of them."""

    name: str | None
    """Of what they have in common; None where they have none, and for all jobs together."""
    jobs: int
    completed: int
    core_hours: float
    """Cores that they held, times how long."""
    cpu_hours: float | None
    """User and system time of those of which it is known."""
    cpu_real: float | None
    """(User + system time) / real time, over those jobs of which both are known; see docs/workload.md."""
    memory_peak_bytes: int | None
    """The most that one of them used."""
    wait_mean_s: float | None
    wait_longest_s: float | None
    read_bytes: int | None
    written_bytes: int | None
    cost_usd: float | None
    """Core-hours by the price of a core on their nodes; None where one has no price."""


Price = Callable[[JobUsage], float | None]
"""USD per hour of one core of the node that a job ran on; None where that has no price."""


def usage_groups(jobs: Sequence[JobUsage], by: str, price: Price | None) -> list[UsageGroup]:
    """Groups by one of BY, that with the most core-hours first."""
    usage: dict[str | None, list[JobUsage]] = {}
    for job in jobs:
        usage.setdefault(BY[by](job), []).append(job)
    groups = [usage_group(name, alike, price) for name, alike in usage.items()]
    return sorted(groups, key=lambda group: (-group.core_hours, group.name or ""))


def usage_group(name: str | None, jobs: Sequence[JobUsage], price: Price | None) -> UsageGroup:
    """All these jobs as one group."""
    timed = [(job.cpu_s, job.elapsed_s) for job in jobs if job.cpu_s is not None and job.elapsed_s > 0]
    waits = [wait for job in jobs if (wait := job.waited_s) is not None]
    elapsed = sum(real for _, real in timed)
    costs = [_cost(job, price) for job in jobs] if price is not None else []
    known = [cost for cost in costs if cost is not None]
    return UsageGroup(
        name=name,
        jobs=len(jobs),
        completed=sum(job.state is JobState.COMPLETED for job in jobs),
        core_hours=sum(job.core_s for job in jobs) / _HOUR_S,
        cpu_hours=sum(cpu for cpu, _ in timed) / _HOUR_S if timed else None,
        cpu_real=sum(cpu for cpu, _ in timed) / elapsed if elapsed else None,
        memory_peak_bytes=max((each for job in jobs if (each := job.memory_peak_bytes)), default=None),
        wait_mean_s=mean(waits) if waits else None,
        wait_longest_s=max(waits, default=None),
        read_bytes=_total(job.read_bytes for job in jobs),
        written_bytes=_total(job.written_bytes for job in jobs),
        cost_usd=sum(known) if len(known) == len(costs) and costs else None,
    )


def _cost(job: JobUsage, price: Price) -> float | None:
    if job.core_s == 0:
        return 0.0
    hourly = price(job)
    return None if hourly is None else hourly * job.core_s / _HOUR_S


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def core_hours_by_day(
    jobs: Iterable[JobUsage], day_of: Callable[[float], str], by: str
) -> dict[str | None, dict[str, float]]:
    """Core-hours of each group by the day on which its jobs ended, as `day_of` names days."""
    found: dict[str | None, dict[str, float]] = {}
    for job in jobs:
        if job.ended is not None:
            days = found.setdefault(BY[by](job), {})
            day = day_of(job.ended)
            days[day] = days.get(day, 0.0) + job.core_s / _HOUR_S
    return found
