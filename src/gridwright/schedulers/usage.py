"""What jobs have used: records of a scheduler's accounting, the same for every scheduler, and their sums."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import mean

from gridwright.schedulers.job import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What one job that has ended, or one element of an array, used.

    Times in seconds, moments in seconds since 1970, sizes in bytes; None is what the accounting does not
    know. A job that was restarted has the times of its last run.
    """

    id: str
    """As its scheduler writes it."""
    name: str
    state: JobState
    user: str | None = None
    account: str | None = None
    queue: str | None = None
    node: str | None = None
    cores: int = 1
    """Physical cores that it held, whether it used them or not."""
    submitted: float | None = None
    started: float | None = None
    """None where it never ran."""
    ended: float | None = None
    cpu_s: float | None = None
    """User and system time of all its processes."""
    memory_bytes: int | None = None
    """What it had asked for."""
    memory_peak_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """What its processes read from and wrote to file systems, all libraries together."""
    eligible: float | None = None
    """When it could have started: its dependencies and its begin time were met. None: not known."""
    forgeable: bool = False
    """Whether any user can write such a record, of any other: by the name of an own job."""
    refused: bool = False
    """Whether it counts for nobody: it contradicts an earlier record of its number, or cannot be."""

    @property
    def elapsed_s(self) -> float:
        """How long it ran; 0 where it never did."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, self.ended - self.started)

    @property
    def core_s(self) -> float:
        """Cores that it held, times how long."""
        return self.cores * self.elapsed_s

    @property
    def waited_s(self) -> float | None:
        """How long it waited for its start since it could have started, or since it was submitted."""
        since = self.eligible if self.eligible is not None else self.submitted
        if since is None or self.started is None:
            return None
        return max(0.0, self.started - since)


_BY: Mapping[str, Callable[[JobUsage], str | None]] = {
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
        usage.setdefault(_BY[by](job), []).append(job)
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
            days = found.setdefault(_BY[by](job), {})
            day = day_of(job.ended)
            days[day] = days.get(day, 0.0) + job.core_s / _HOUR_S
    return found


_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)[nc]?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def parse_elapsed(text: str) -> float | None:
    """Seconds of `1-02:03:04`, `02:03:04` or `00:03.012`; None if it is none of these."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(((days * 24 + hours) * 60 + minutes) * 60 + seconds, 6)


def parse_time(text: str) -> float | None:
    """Unix time of `2026-11-22T12:44:52`, in local time, or of seconds as SLURM_TIME_FORMAT=%s has them."""
    if text.isdigit():
        return float(text) or None
    try:
        return time.mktime(datetime.fromisoformat(text).timetuple())
    except (ValueError, OverflowError):
        return None


def parse_size(text: str) -> int | None:
    """Bytes of `9148K`, `800.04M` or `1234`: powers of 1024; None if it is none of these.

    ReqMem has n or c behind: of a node, or of a core.
    """
    match = _SIZE.fullmatch(text.strip())
    return round(float(match[1]) * 1024 ** _POWERS[match[2].upper()]) if match else None


def parse_usage(text: str) -> dict[str, int]:
    """What TRESUsageInTot tells: `cpu=00:00:02,fs/disk=32709,mem=9148K` by name, times left out."""
    pairs = (part.partition("=") for part in text.split(","))
    sizes = ((name.strip(), parse_size(value)) for name, _, value in pairs)
    return {name: size for name, size in sizes if size is not None}
