"""Jobs are not remembered for ever: those that ended long ago go, with their logs."""

from __future__ import annotations

import contextlib
import os

from gridwright.schedulers.local.names import Key
from gridwright.schedulers.local.store import Store

REMEMBERED_S = 30 * 86_400.0
"""How long a job is remembered after its end, or the end of the last element of its array."""
_AT_ONCE = 100_000
"""Tasks, so that it takes a second or so however many there are; the rest goes another time."""


def forget_old(store: Store, now: float) -> int:
    """Forget jobs that ended long before `now` (s since 1970), if none waits or runs; how many tasks."""
    with store.changing():
        if store.has_unfinished():
            # It may refer to one of them.
            return 0
        old = store.all(
            "SELECT job FROM tasks GROUP BY job HAVING MAX(ended) < ? ORDER BY job", (now - REMEMBERED_S,)
        )
        forgotten = 0
        for (job,) in old:
            tasks = store.all("SELECT idx FROM tasks WHERE job=?", (job,))
            for (index,) in tasks:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(store.log_of(Key(job, index)))  # noqa: PTH108
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
