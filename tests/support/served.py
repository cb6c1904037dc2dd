"""A directory of names, with the processes that load what is read there."""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from gridwright.repository.references import ContentPlace, FileState, ObjectReference, write_state
from tests.support.command import GRIDWRIGHT

MTIME_NS = 1_600_000_000_123_456_789

_AS_SYSTEMD_STARTS = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


def make_name_only(descriptor: int, state: FileState) -> None:
    """Make an open, empty file a name: of the object's size, without content, with its mtime."""
    write_state(descriptor, state)
    os.ftruncate(descriptor, state.reference.size)
    os.utime(descriptor, ns=(os.fstat(descriptor).st_atime_ns, state.mtime_ns))


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


class _Reached(Protocol):
    """A store."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client finds it by."""


class SystemdDouble:
    """What of systemd a service asks for: a descriptor is kept, and given to the next process."""

    def __init__(self, place: Path) -> None:
        self._address = str(place / "notify")
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listening.bind(self._address)
        self._listening.settimeout(20)
        self.kept: int | None = None

    def environment(self) -> dict[str, str]:
        """Of a service that it starts."""
        kept = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "gridwright-events"} if self.kept is not None else {}
        return {"NOTIFY_SOCKET": self._address, "FDSTORE": "1", **kept}

    def take(self) -> None:
        """Keep what the service wants to be kept; returns once it is ready."""
        while True:
            text, ancillary, *_ = self._listening.recvmsg(400, 100)
            if text.startswith(b"FDSTORE=1\n"):
                self.kept = array.array("i", ancillary[0][2])[0]
            if text == b"READY=1":
                return

    def let_go(self) -> None:
        """Keep nothing any more, which lets all go that still wait for what was kept."""
        if self.kept is not None:
            os.close(self.kept)
            self.kept = None

    def __enter__(self) -> SystemdDouble:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._listening.close()


@contextmanager
def served(
    directory: Path, store: _Reached, *, patience_s: float = 20, by_systemd: SystemdDouble | None = None
) -> Iterator[Served]:
    """Serve a directory until the end of the block."""
    command = ["repo", "serve", "--directory", str(directory), "--patience", str(patience_s)]
    program = [GRIDWRIGHT, *command]
    more = by_systemd.environment() if by_systemd else {}
    kept = by_systemd.kept if by_systemd else None
    if kept is not None:
        # The descriptor has to be the third, and the variable the number of the process.
        program = [sys.executable, "-c", _AS_SYSTEMD_STARTS, str(kept), *program]
    log = directory.parent / f"{directory.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **store.environment, **more},
            pass_fds=() if kept is None else (kept,),
        )
    daemon = Served(directory, process, log)
    daemon.wait_for("; serving")
    try:
        yield daemon
    except BaseException as error:
        error.add_note(daemon.said())
        raise
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
