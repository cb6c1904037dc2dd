"""The process of one launch of a test: `python -m gridwright.workload.launches.process`.

Reads its request, a `ProgramRequest`, from the file descriptor named in argument 1, and counts its
traffic in the memory file named in argument 2. The exit status says how the test ended; the last
line on stderr says why.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from enum import IntEnum

from gridwright.messages import decode
from gridwright.workload.launches.launch import Launch, WrongAnswer
from gridwright.workload.launches.program_request import ProgramRequest
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.programs.program import program_of


class Ended(IntEnum):
    """Exit status of a test."""

    OK = 0
    WRONG = 10
    NO_MEMORY = 11
    FAILED_IO = 12
    BROKEN = 13


def main() -> None:
    """Run the test that was asked for."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        request = decode(file.read(), ProgramRequest)
    traffic = LaunchTraffic(int(sys.argv[2]))
    warnings.simplefilter("ignore")
    launch = Launch(
        work=request.work,
        util=request.util,
        tables=request.tables,
        traffic=traffic,
        cores=request.cores,
        memory_bytes=request.memory_bytes,
        settings=request.settings,
        replay=request.replay,
        block_bytes=request.block_bytes,
    )
    status, message = run(request.test, launch)
    if message:
        print(message, file=sys.stderr, flush=True)  # noqa: T201 - the launch's log
    sys.stdout.flush()
    # What libraries do at exit (threads, allocators) is no work of the test.
    os._exit(status)


def run(test: str, launch: Launch) -> tuple[Ended, str]:
    """Run a test; returns how it ended, and why in one line."""
    try:
        program_of(test).run(launch)
    except WrongAnswer as error:
        return Ended.WRONG, f"wrong answer: {error}"
    except MemoryError as error:
        return Ended.NO_MEMORY, f"out of memory: {str(error).splitlines()[0] if str(error) else test}"
    except OSError as error:
        number = errno.errorcode.get(error.errno or 0, "")
        return (
            Ended.FAILED_IO,
            f"I/O failed: {error.strerror or error} {number} {error.filename or ''}".rstrip(),
        )
    except Exception as error:
        # An engine that fails, fails the launch: the reason goes into the record, not a traceback.
        text = (str(error).splitlines() or [""])[0]
        kind = type(error).__name__
        out = "OutOfMemory" in kind or "bad_alloc" in text
        full = "No space left" in text
        status = Ended.NO_MEMORY if out and not full else Ended.FAILED_IO if full else Ended.BROKEN
        return status, f"{kind}: {text}"
    return Ended.OK, ""


if __name__ == "__main__":
    main()
