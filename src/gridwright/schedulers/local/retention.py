"""Retention: jobs that ended long ago are deleted, with their logs."""

from __future__ import annotations

import contextlib
import os

from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.kind import LocalSchedulerSection
from gridwright.schedulers.local.store import Store

RETENTION_S = LocalSchedulerSection.remembers_jobs_s or 0.0
"""How long a job is remembered after its end, or the end of the last element of its array."""
_AT_ONCE = 100_000
"""Tasks, so that it takes a second or so however many there are; the rest goes another time."""


def delete_old_jobs(store: Store, now: float) -> int:
    """Delete jobs that ended long before `now` (s since 1970), if none waits or runs; how many tasks."""
    with store.transaction():
        if store.has_unfinished():
            # It may refer to one of them.
            return 0
        old = store.all(
            "SELECT job FROM tasks GROUP BY job HAVING MAX(ended) < ? ORDER BY job", (now - RETENTION_S,)
        )
        forgotten = 0
        for (job,) in old:
            tasks = store.all("SELECT idx FROM tasks WHERE job=?", (job,))
            for (index,) in tasks:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(store.log_of(JobKey(job, index)))  # noqa: PTH108
            for statement in (
                "DELETE FROM dependencies WHERE job=?",
                "DELETE FROM tasks WHERE job=?",
                "DELETE FROM jobs WHERE id=?",
            ):
                store.change(statement, (job,))
            forgotten += len(tasks)
            if forgotten >= _AT_ONCE:
                break
    return forgotten
