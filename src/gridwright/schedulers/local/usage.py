"""What local jobs used, out of the store: as long as it remembers them."""

from __future__ import annotations

import os
import socket

from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_options import read_options
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.usage import JobUsage

_ENDED = """
SELECT t.job, t.idx, j.name, t.state, j.user, j.queue, j.cores, j.memory, j.submitted, t.started, t.ended,
    t.user_s, t.system_s, t.peak_bytes, j.options
FROM tasks t JOIN jobs j ON j.id=t.job
WHERE t.state NOT IN ('waiting', 'running') AND t.ended BETWEEN ? AND ? ORDER BY t.ended
"""


def read_usage(store: Store, since: float, until: float) -> list[JobUsage]:
    """Jobs that ended from `since` to `until`, in seconds since 1970. Raises sqlite3.Error."""
    found = []
    for row in store.all(_ENDED, (since, until)):
        options = read_options(row[14])
        begun = None if options.begin is None else max(options.begin, row[8])
        found.append(
            JobUsage(
                id=str(JobKey(row[0], row[1])),
                name=os.fsdecode(row[2]),
                state=JobState(row[3]),
                user=row[4],
                account=options.account,
                queue=row[5],
                node=socket.gethostname() if row[9] is not None else None,
                cores=row[6],
                memory_bytes=row[7],
                submitted=row[8],
                started=row[9],
                ended=row[10],
                cpu_s=None if row[11] is None else row[11] + (row[12] or 0.0),
                memory_peak_bytes=row[13],
                eligible=begun,
            )
        )
    return found
