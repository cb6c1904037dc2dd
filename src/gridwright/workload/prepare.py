"""The process that prepares the data set: it checks space, makes what is missing, and empties the cache.

Reads one request on stdin, answers in events on stdout, a JSON document a line. SIGTERM, the end of stdin and
the death of its parent are orders to stop.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gridwright.errors import GridwrightError, environment_error
from gridwright.messages import decode, encode
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    DataFailed,
    DataProgress,
    DataReady,
    TableMade,
    WorkloadEvent,
)
from gridwright.schedulers.process_tree import die_with_parent
from gridwright.workload.data_set import DataSet, Locked
from gridwright.workload.datasets.catalogue import TABLES, check_space, needs, table_bytes
from gridwright.workload.messages import DataRequest, TableAnswer, TableRequest, scale
from gridwright.workload.programs.program import program_of

Emit = Callable[[WorkloadEvent], None]
_POLL_S = 0.2
_WAIT_FOR_LOCK_S = 24 * 3600.0


class Stopped(Exception):
    """An order to stop came."""


@dataclass(slots=True)
class _Writer:
    process: subprocess.Popen[bytes]
    task: tuple[str, int] | None = None
    path: Path | None = None


def missing_tables(data: DataSet, tables: set[str], copies: int) -> list[tuple[str, int]]:
    """Tables and copies that are not there yet, the largest first. Raises OSError."""
    there = data.entries()
    sizes = {name: table_bytes(name, data.scale) for name in tables}
    missing = [(name, copy) for copy in range(copies) for name in tables if f"{copy}/{name}" not in there]
    return sorted(missing, key=lambda each: (-sizes[each[0]], each))


def prepare(
    data: DataSet, tables: set[str], copies: int, *, workers: int, emit: Emit, stopped: Callable[[], bool]
) -> None:
    """Have `tables` in all copies. Raises Stopped, GridwrightError and OSError.

    A set that another process is making is waited for. Tables that are whole are left alone.
    """
    deadline = time.monotonic() + _WAIT_FOR_LOCK_S
    while missing_tables(data, tables, copies):
        try:
            with data.lock():
                data.remove_partial()
                _make(data, missing_tables(data, tables, copies), workers, emit, stopped)
        except Locked:
            emit(DataProgress(state="waiting"))
            if stopped():
                raise Stopped from None
            if time.monotonic() > deadline:
                raise environment_error(
                    "another process has been making this data set for a day", where=str(data.directory)
                ) from None
            time.sleep(_POLL_S)


def _make(
    data: DataSet,
    missing: list[tuple[str, int]],
    workers: int,
    emit: Emit,
    stopped: Callable[[], bool],
) -> None:
    pending = list(missing)
    running = [_start() for _ in range(min(workers, len(pending)))]
    try:
        with selectors.DefaultSelector() as selector:
            for writer in running:
                selector.register(_pipe(writer.process.stdout), selectors.EVENT_READ, writer)
                _feed(writer, data, pending)
            left = len(missing)
            while left:
                for key, _ in selector.select(_POLL_S):
                    _finish(key.data, data, emit)
                    left -= 1
                    _feed(key.data, data, pending)
                if stopped():
                    raise Stopped
                emit(DataProgress(state="making", done=len(missing) - left, of=len(missing)))
    finally:
        for writer in running:
            writer.process.kill()
            writer.process.communicate()
        data.remove_partial()


def _start() -> _Writer:
    return _Writer(
        subprocess.Popen(
            [sys.executable, "-P", "-m", "gridwright.workload.datasets.writer", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )


def _feed(writer: _Writer, data: DataSet, pending: list[tuple[str, int]]) -> None:
    writer.task = pending.pop(0) if pending else None
    if writer.task is None:
        return
    name, copy = writer.task
    writer.path = data.path(name, copy, TABLES[name].format)
    request = TableRequest(name, str(writer.path), data.scale.units, data.seed, copy)
    pipe = _pipe(writer.process.stdin)
    pipe.write(encode(request) + b"\n")
    pipe.flush()


def _finish(writer: _Writer, data: DataSet, emit: Emit) -> None:
    line = _pipe(writer.process.stdout).readline()
    name, copy = writer.task or ("", 0)
    if not line:
        raise environment_error(
            f"the process that made table {name} ended without a word",
            where=str(writer.path),
            remedy="look for an out-of-memory kill in `dmesg`, then run again: what is whole is kept",
        )
    answer = decode(line, TableAnswer)
    made = answer.made
    if made is None:
        raise _failed(answer)
    if writer.path is not None:
        data.record({f"{copy}/{name}": (writer.path, made)})
    emit(TableMade(table=name, copy=copy, bytes=made.bytes_, sha256=made.sha256))


def _failed(answer: TableAnswer) -> GridwrightError:
    return environment_error(
        f"the data cannot be written: {answer.error}",
        where=answer.path,
        remedy="mend that, then run again: tables that are whole are kept",
    )


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the writer was started without its pipes")
    return pipe


def main() -> None:
    """Serve one request, a `DataRequest`."""
    die_with_parent(int(sys.argv[1]))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    request = decode(sys.stdin.readline(), DataRequest)
    try:
        _serve(request, stop)
    except Stopped:
        return
    except GridwrightError as error:
        _fail(error)
    except OSError as error:
        _fail(_unready(error, Path(request.libraries["data"])))


def _unready(error: OSError, library: Path) -> GridwrightError:
    """The error of a data set that cannot be made ready; names come from within the library."""
    remedy = "check that the directory exists, and who may write there"
    if error.errno == errno.EACCES:
        remedy = (
            "only who may write there makes data sets, and all users may use root's: have root run the same "
            "command once, or name a grid spec with libraries of your own"
        )
    what = f"the data set cannot be made ready: {error.strerror or error}"
    return environment_error(what, where=str(library / os.fsdecode(error.filename or "")), remedy=remedy)


def _serve(request: DataRequest, stop: threading.Event) -> None:
    libraries = {name: Path(path) for name, path in request.libraries.items()}
    chosen = scale(request.scale)
    data = DataSet.of(libraries["data"], chosen, request.seed)
    tests = {test for stream in request.streams for test in stream if test is not None}
    tables = {table for test in tests for table in program_of(test).tables}
    missing = missing_tables(data, tables, request.copies)
    check_space(libraries, needs(chosen, missing, request.streams, keep=request.keep))
    began = time.monotonic()
    prepare(data, tables, request.copies, workers=request.workers, emit=_say, stopped=stop.is_set)
    data.evict()
    entries = data.entries()
    required = [entries[f"{copy}/{name}"] for copy in range(request.copies) for name in sorted(tables)]
    _say(
        DataReady(
            directory=str(data.directory),
            bytes=sum(entry["bytes"] for entry in required),
            tables=len(required),
            made=len(missing),
            seconds=time.monotonic() - began,
        )
    )


def _fail(error: GridwrightError) -> None:
    _say(DataFailed(problems=list(error.problems), exit=error.status))


def _say(event: WorkloadEvent) -> None:
    os.write(sys.stdout.fileno(), WORKLOAD_EVENTS.encode(event) + b"\n")


if __name__ == "__main__":
    main()
