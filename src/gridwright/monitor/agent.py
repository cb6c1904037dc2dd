"""Samples the node that it runs on once a second, and keeps the history: `gridwright node history`.

A child does both, since a process one of whose threads hangs on a mount cannot end. Who is told to stop ends
within a second, whatever hangs; what the child has kept is whole, however it ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gridwright.monitor.history.questions import history_file
from gridwright.monitor.history.steady import OtherWriter, SteadyWriter
from gridwright.monitor.sampler import Sampler

_END_S = 0.5
"""For the child to let the file go."""
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MIDDLE_S = 0.5
"""Samples are taken in the middle of each second, so that a late one is still in it."""
_PR_SET_PDEATHSIG = 1


def run(directory: Path, libraries: Sequence[str] = (), most_bytes: int = 0) -> int:
    """Keep the history of this node until a signal says that it is enough; the exit status.

    `libraries` are paths of directories of libraries. Status 3 where another agent writes there already.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOPPING, signal.SIGCHLD})
    parent, child = os.getpid(), os.fork()
    if child == 0:
        _sample(parent, directory, libraries, most_bytes)
    while signal.sigwait({*_STOPPING, signal.SIGCHLD}) == signal.SIGCHLD:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 3
    os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    return 0


def _sample(parent: int, directory: Path, libraries: Sequence[str], most_bytes: int) -> NoReturn:
    """In the child: sample and write until a signal ends it, or the parent is gone."""
    status = 3
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        writer = SteadyWriter(
            history_file(directory), _say, **({"most_bytes": most_bytes} if most_bytes else {}), shared=True
        )
        sampler = Sampler(tuple(libraries))
        gc.freeze()
        while os.getppid() == parent:
            writer.add(sampler.sample())
            if signal.sigtimedwait(_STOPPING, _until_the_next(time.time())) is not None:
                break
        writer.close()
        status = 0
    except OtherWriter as error:
        _say(str(error))
    except Exception as error:
        # Its service starts it again.
        _say(f"this node cannot be sampled: {type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _until_the_next(now: float) -> float:
    """Seconds until the middle of a second, half a second at least."""
    wait = (_MIDDLE_S - now) % 1.0
    return wait if wait >= _MIDDLE_S else wait + 1.0


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)  # noqa: T201 - the journal of the service
