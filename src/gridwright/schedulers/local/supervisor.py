"""The supervisor of the runner: when that is killed, it starts another, which goes on with its jobs.

All jobs are below it, whatever they do to hide: it is the subreaper of the runner, as the runner is of the
launcher and that of guards (PR_SET_CHILD_SUBREAPER). It does nothing else, and knows nothing of the store.
When both are killed, jobs go on under their guards, and the next command starts another supervisor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from gridwright.schedulers.process_tree import adopt_orphans

GIVE_UP = 5
"""So many runners in a row that fail within LASTED_S: the next command tries again."""
LASTED_S = 10.0
_PAUSE_S = 0.02


def supervise(run: Callable[[], None]) -> None:
    """Call `run` in a child process, and again in a new one if that is killed or fails."""
    adopt_orphans()
    failures = 0
    while failures < GIVE_UP:
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            # Returns in the child: what it raises becomes a traceback in the runner's output, and status 1.
            run()
            os._exit(0)
        if _wait(pid) == 0:
            return
        failures = failures + 1 if time.monotonic() - began < LASTED_S else 1
        time.sleep(_PAUSE_S * 2**failures)


def _wait(pid: int) -> int:
    """The status of the runner when it has ended; reaps others meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status
