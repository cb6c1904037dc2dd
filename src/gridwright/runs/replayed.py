"""Holds a replay against the jobs that it replays."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.profiles import Profiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """The launches of one job: medians over those that ended well, in seconds."""

    test: str
    launches: int
    job_real_s: float
    """Of the job that was profiled."""
    real_s: float | None
    cpu_s: float | None
    ratio: float | None
    """Real time of the replay to that of the job."""


def replayed_jobs(profiles: Profiles, launches: Iterable[LaunchRecord]) -> list[ReplayedJob]:
    """One row for each job, in the order of the first launches."""
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        groups.setdefault(launch.test, []).append(launch)
    return [_job(test, profiles.profiles[test].real_s, group) for test, group in groups.items()]


def _job(test: str, job_s: float, group: list[LaunchRecord]) -> ReplayedJob:
    whole = [record for record in group if record.ok and record.real_s is not None]
    real = statistics.median(record.real_s or 0.0 for record in whole) if whole else None
    cpu = [(record.user_s or 0.0) + (record.system_s or 0.0) for record in whole]
    return ReplayedJob(
        test=test,
        launches=len(group),
        job_real_s=job_s,
        real_s=real,
        cpu_s=statistics.median(cpu) if cpu else None,
        ratio=real / job_s if real is not None and job_s else None,
    )
