"""Which jobs have series of their own: those that moved most of each user, in turns, and one has all others.

What keeps series pays for each job for hours, so their number is bounded. The sum over all series rises as
the sum over all jobs does: a job that gets a series, or loses it, takes nothing with it. A user can have any
number of jobs by what processes say of themselves; their series take none of another user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridwright.monitor.job_rows import by_turns
from gridwright.monitor.readings import Reading
from gridwright.monitor.user_sums import OWNER

MOST_JOBS = 100
OTHER = "other"
_JOB = "gridwright_job_"
_MOVED = ("gridwright_job_read_bytes_total", "gridwright_job_written_bytes_total")
_MUCH_MORE = 2.0
"""How much more a job has to have moved than the least of those with a series, to take its place."""


@dataclass(slots=True)
class JobSeries:
    """Remembers which jobs have a series, and what the others have done so far."""

    most: int = MOST_JOBS
    _own: set[str] = field(default_factory=set)
    _before: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Counters of all jobs in the sample before."""
    _others: dict[tuple[str, ...], float] = field(default_factory=dict)
    """What counters of jobs without a series have risen by."""
    _began: bool = False
    left_out: int = 0
    """Readings of the last sample that are in the sum alone."""

    def told(self, readings: Iterable[Reading]) -> list[Reading]:
        """The same readings, with jobs that have no series of their own put together."""
        jobs: dict[str, list[Reading]] = {}
        users: dict[str, str] = {}
        found = []
        for each in readings:
            if each.metric == OWNER:
                users[each.labels[0]] = each.labels[1]
            elif each.metric.startswith(_JOB):
                jobs.setdefault(each.labels[0], []).append(each)
            else:
                found.append(each)
        self._choose(jobs, users)
        self.left_out = sum(len(those) for job, those in jobs.items() if job not in self._own)
        return [*found, *self._told_of(jobs)]

    def _choose(self, jobs: dict[str, list[Reading]], users: dict[str, str]) -> None:
        def rank(job: str) -> tuple[float, bool, str]:
            moved = sum(each.value for each in jobs[job] if each.metric in _MOVED)
            has_series = job in self._own
            return -moved * (_MUCH_MORE if has_series else 1.0), not has_series, job

        # A user may call a job as the sum is called.
        ranked = sorted(jobs.keys() - {OTHER}, key=rank)
        self._own = set(by_turns(ranked, lambda job: users.get(job, ""))[: self.most])

    def _told_of(self, jobs: dict[str, list[Reading]]) -> Iterator[Reading]:
        before, self._before = self._before, {}
        sums: dict[tuple[str, ...], float] = {}
        at = 0.0
        for job, those in jobs.items():
            for each in those:
                if each.is_counter:
                    self._before[each.key] = each.value
                if job in self._own:
                    yield each
                    continue
                at = max(at, each.at_s)
                of = (each.metric, *each.labels[1:])
                if each.is_counter:
                    # What a job did before it was first seen here is not known to be new.
                    last = before.get(each.key, 0.0 if self._began else each.value)
                    self._others[of] = self._others.get(of, 0.0) + max(0.0, each.value - last)
                else:
                    sums[of] = sums.get(of, 0.0) + each.value
        self._began = True
        for (metric, *more), value in {**self._others, **sums}.items():
            yield Reading(metric, (OTHER, *more), value, at)
