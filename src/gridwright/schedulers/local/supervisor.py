"""The supervisor of the runner: when that is killed, it ends the jobs that are left and starts another.

All jobs are below it, whatever they do to hide: it is the subreaper of the runner, as the runner is of the
jobs (PR_SET_CHILD_SUBREAPER). It does nothing else, and knows nothing of the store. Only when both are
killed, jobs go on unwatched until the next command; what that starts finds them by other means.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from gridwright.schedulers.local.processes import identify, send_signal
from gridwright.schedulers.process_tree import adopt_orphans, descendants

GIVE_UP = 5
"""So many runners in a row that fail within LASTED_S: the next command tries again."""
LASTED_S = 10.0
GONE_S = 10.0
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
        _end_all()
        failures = failures + 1 if time.monotonic() - began < LASTED_S else 1
        time.sleep(_PAUSE_S * 2**failures)


def _wait(pid: int) -> int:
    """The status of the runner when it has ended; reaps others meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def _end_all() -> None:
    """Kill all that is below this process: jobs whose runner has ended."""
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        left = identify(descendants(os.getpid()))
        send_signal(left, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(_PAUSE_S / 4)
