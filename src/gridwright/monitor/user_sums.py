"""What the jobs of each user did on a node: sums over all jobs, before any of these is left out (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.monitor.job_rows import THERE
from gridwright.monitor.rates import Key

OWNER = "gridwright_job_user"
JOBS = "gridwright_user_jobs"
UNKNOWN = "unknown"
"""The user of jobs whose processes had ended before it was looked whose they are."""
OF_USERS = {
    "gridwright_job_cpu_seconds_total": "gridwright_user_cpu_seconds_total",
    "gridwright_job_read_bytes_total": "gridwright_user_read_bytes_total",
    "gridwright_job_written_bytes_total": "gridwright_user_written_bytes_total",
    THERE: JOBS,
}
"""Sums, by what they are sums of; of jobs it is their number."""
METRICS = tuple(OF_USERS.values())
"""CPU time, bytes read, bytes written, and the number of jobs."""


def user_values(values: Iterable[tuple[Key, float, int]]) -> list[tuple[Key, float, int]]:
    """Sums by user. Each value has the seconds with it for which it stands: one sum for each number of these.

    What stands for its own second alone comes first.
    """
    of_jobs = [each for each in values if each[0][0] in OF_USERS or each[0][0] == OWNER]
    owners = {key[1]: key[2] for key, _, _ in of_jobs if key[0] == OWNER}
    sums: dict[tuple[Key, int], float] = {}
    for key, value, back in of_jobs:
        metric = OF_USERS.get(key[0])
        if metric is not None:
            name = (metric, owners.get(key[1], UNKNOWN)), back
            sums[name] = sums.get(name, 0.0) + (1.0 if metric == JOBS else value)
    return [(key, sums[key, back], back) for key, back in sorted(sums, key=lambda each: each[1])]
