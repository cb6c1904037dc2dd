"""A directory of names, with the processes that load what is read there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gridwright.repository.references import ContentPlace, FileState, ObjectReference, make_name_only
from tests.support.range_store import RangeStore

MTIME_NS = 1_600_000_000_123_456_789
_PROGRAM = """
import sys
from gridwright.repository.lazy.service import LazyService, serve
serve(LazyService(sys.argv[1], float(sys.argv[2])))
"""


def name_only(path: Path, reference: ObjectReference) -> None:
    """Make a file that is a name only."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        make_name_only(descriptor, FileState(reference, ContentPlace.NAME_ONLY, MTIME_NS))
    finally:
        os.close(descriptor)


@dataclass
class Served:
    """The holder and its loader."""

    directory: Path
    process: subprocess.Popen[bytes]
    log: Path
    others: list[int] = field(default_factory=list)

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def loader(self) -> psutil.Process:
        """The process that loads, once it is there."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for child in psutil.Process(self.process.pid).children():
                with suppress(psutil.Error):
                    if "gridwright.repository.lazy.loader_process" in child.cmdline():
                        return child
            time.sleep(0.02)
        raise AssertionError(f"no loader: {self.said()}")

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Wait until its log has a text."""
        end = time.monotonic() + seconds
        while text not in self.said():
            assert time.monotonic() < end, self.said()
            time.sleep(0.02)


@contextmanager
def served(directory: Path, store: RangeStore, *, patience_s: float = 20) -> Iterator[Served]:
    """Serve a directory until the end of the block."""
    log = directory.parent / f"{directory.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(directory), str(patience_s)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **store.environment()},
        )
    daemon = Served(directory, process, log)
    daemon.wait_for("; serving")
    try:
        yield daemon
    finally:
        daemon.others += [child.pid for child in _children(process.pid)]
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        for other in daemon.others:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)


def _children(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(pid).children()
    return []
