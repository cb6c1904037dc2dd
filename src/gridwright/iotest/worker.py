"""The process that touches a library: it reads one request, and answers with events, one JSON line each.

Request (one line on stdin): one of `gridwright.iotest.messages.REQUESTS`; the end of stdin is an order to
stop, so that a killed command leaves no files behind. SIGTERM and SIGINT are orders to stop, too.

Events (stdout): those of `gridwright.runs.iotest_events`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.iotest.measure import LibraryFailed, LibraryTest, WrongData
from gridwright.iotest.messages import REQUESTS, RemoveStale
from gridwright.iotest.scratch import remove_stale
from gridwright.iotest.stream_plan import NotEnoughSpace
from gridwright.runs.iotest_events import IOTEST_EVENTS, Ended, IotestEvent, LibraryDone


def main() -> None:
    """Serve one request; see the module for what goes in and out."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    request = REQUESTS.decode(sys.stdin.readline())
    if isinstance(request, RemoveStale):
        remove_stale(Path(request.directory))
        return
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    emit = _Emitter(stop)
    test = LibraryTest(request.target, request.options, run=request.run, emit=emit, stop=stop)
    status: Ended = "complete"
    exit_status = ExitStatus.DONE
    try:
        test.run()
    except (LibraryFailed, NotEnoughSpace) as failed:
        emit(failed.problem)
        status, exit_status = "failed", ExitStatus.ENVIRONMENT
        if isinstance(failed, LibraryFailed) and failed.hung:
            # Its threads hang in the kernel: nothing that waits for them would end.
            emit(LibraryDone(status=status, exit=exit_status))
            os._exit(exit_status)
    except GridwrightError as error:
        for problem in error.problems:
            emit(problem)
        status, exit_status = "failed", error.status
    except WrongData:
        status, exit_status = "failed", ExitStatus.MISSED
    else:
        if stop.is_set():
            status, exit_status = "interrupted", ExitStatus.INTERRUPTED
    emit(LibraryDone(status=status, exit=exit_status))


def _stop_at_end_of_input(stop: threading.Event) -> None:
    try:
        while os.read(sys.stdin.fileno(), 4096):
            pass
    except OSError:
        pass
    stop.set()


class _Emitter:
    """Writes events; a reader that is gone is an order to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __call__(self, event: IotestEvent) -> None:
        line = memoryview(IOTEST_EVENTS.encode(event) + b"\n")
        try:
            while line:
                line = line[os.write(sys.stdout.fileno(), line) :]
        except BrokenPipeError:
            self._stop.set()


if __name__ == "__main__":
    main()
