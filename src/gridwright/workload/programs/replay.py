"""Runs a launch by its profile: CPU time is burnt, tables are read and temporary files written."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.workload.launches.launch import Launch
from gridwright.workload.launches.program_request import ReplayPhase
from gridwright.workload.launches.traffic import CountedFile
from gridwright.workload.programs.program import Program

TABLE = "transactions"
_BLOCK = 1 << 20
_WINDOW = 16 << 20
"""Bytes whose pages are dropped before they are read."""
_PAGE = 4096
_MOST_FILE_BYTES = 4 << 30
"""A temporary file that would grow beyond this is written anew from its beginning."""


def _run_replay(launch: Launch) -> None:
    """Runs a launch by its profile: CPU time is burnt, tables are read and temporary files written.

    I/O: reads a table of the data set, again and again where it is smaller than what is to be read, past the
    page cache but for what the profile has as cached; writes a file of its own in work or util, and reads it
    back. Computing: hashes a buffer until the process has used the CPU time of the phase and all before it,
    so that what the I/O itself takes is part of it. Within a phase both go side by side, as in the model.
    """
    work = launch.replay
    held = _hold(work.memory_bytes)
    replay = _Replay(launch)
    try:
        for phase in work.phases:
            replay.run(phase)
    finally:
        replay.close()
    del held


def _hold(size: int) -> bytearray:
    """Take memory and touch each page of it, less what the process has already."""
    own = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    held = bytearray(max(0, size - own))
    held[::_PAGE] = b"\1" * len(held[::_PAGE])
    return held


class _Replay:
    """The files of a launch, and the CPU time that it should have used by now."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._table = launch.open_file(launch.facts(TABLE).path, "r", "data")
        self._size = max(_BLOCK, launch.facts(TABLE).path.stat().st_size // _BLOCK * _BLOCK)
        # Launches that run at once should not find each other's blocks in the page cache.
        self._at = os.getpid() * _WINDOW % self._size
        self._dropped = 0
        """Bytes from there on whose pages were dropped."""
        self._block = bytearray(os.urandom(_BLOCK))
        self._files: dict[str, _Temporary] = {}
        self._cpu_s = 0.0

    def run(self, phase: ReplayPhase) -> None:
        """Do the work of one phase, and take as long as its threads need."""
        began = time.monotonic()
        self._cpu_s += phase.cpu_s
        failure: list[BaseException] = []
        moving = threading.Thread(target=_caught, args=(lambda: self._move(phase), failure))
        moving.start()
        if phase.cpu_s:
            _burn(self._cpu_s, math.ceil(phase.threads))
        moving.join()
        if failure:
            raise failure[0]
        if phase.threads < 1.0:
            time.sleep(max(0.0, began + phase.cpu_s / phase.threads - time.monotonic()))

    def close(self) -> None:
        """Close all files."""
        self._table.close()
        for file in self._files.values():
            file.close()

    def _move(self, phase: ReplayPhase) -> None:
        for library, size in phase.read_bytes.items():
            if library == "data":
                cached = min(size, phase.cached_bytes.get(library, 0))
                self._read(size - cached, evicted=True)
                self._read(cached, evicted=False)
            else:
                self._temporary(library).read(size)
        for library, size in phase.written_bytes.items():
            self._temporary(library).write(size)

    def _temporary(self, library: str) -> _Temporary:
        if library not in self._files:
            directory = self._launch.util if library == "util" else self._launch.work
            self._files[library] = _Temporary(directory / "replayed", library, self._launch, self._block)
        return self._files[library]

    def _read(self, size: int, *, evicted: bool) -> None:
        """Read so much of the table; what is not evicted is one block again and again."""
        while size > 0:
            at = self._at % self._size
            # Each block is dropped once before it is read: what the kernel reads ahead is not read twice.
            if evicted and self._dropped == 0:
                self._dropped = min(_WINDOW, self._size - at)
                os.posix_fadvise(self._table.fileno(), at, self._dropped, os.POSIX_FADV_DONTNEED)
            step = min(_BLOCK, size, self._size - at)
            self._table.seek(at)
            self._table.readinto(memoryview(self._block)[:step])
            size -= step
            if evicted:
                self._at = at + step
                self._dropped = max(0, self._dropped - step)


class _Temporary:
    """A file of the launch's own, written from its beginning and read back in turn."""

    def __init__(self, path: Path, library: str, launch: Launch, block: bytearray) -> None:
        self._path, self._library, self._launch = path, library, launch
        self._target = launch.open_file(path, "w", library)
        self._source: CountedFile | None = None
        self._block = memoryview(block)

    def write(self, size: int) -> None:
        while size > 0:
            step = min(_BLOCK, size)
            if self._target.tell() + step > _MOST_FILE_BYTES:
                self._target.seek(0)
            self._target.write(self._block[:step])
            size -= step

    def read(self, size: int) -> None:
        """Read so much, again from the beginning at the end; nothing if nothing was written."""
        self._target.flush()
        if self._source is None:
            self._source = self._launch.open_file(self._path, "r", self._library)
        while size > 0:
            got = self._source.readinto(self._block[: min(_BLOCK, size)])
            size -= got
            if not got and not self._source.tell():
                return
            if not got:
                self._source.seek(0)

    def close(self) -> None:
        self._target.close()
        if self._source is not None:
            self._source.close()


def _burn(until_s: float, threads: int) -> None:
    """Use CPU time until the process has used so many seconds."""
    others = [threading.Thread(target=_hash, args=(until_s,)) for _ in range(threads - 1)]
    for other in others:
        other.start()
    _hash(until_s)
    for other in others:
        other.join()


def _hash(until_s: float) -> None:
    # Of so long a buffer, hashing lets other threads run meanwhile.
    buffer = bytes(1 << 18)
    while time.process_time() < until_s:
        hashlib.blake2b(buffer)


def _caught(work: Callable[[], None], failure: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:
        failure.append(error)


REPLAY_PROGRAM = Program(
    name="replay",
    class_="io",
    mirrors="a job by its profile",
    engine="Gridwright",
    tables=(TABLE,),
    run=_run_replay,
)
