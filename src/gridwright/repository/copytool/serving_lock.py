"""One agent of a node serves a Lustre at a time: it holds a lock, which ends with its process.

The metadata servers know one copytool of a client. What holds the lock says in its file what it serves.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.keys import shown

RUN_DIRECTORY = Path("/run/gridwright/repository")
_TRIES, _PAUSE_S = 5, 0.1
"""Who looks whether a lock is held holds it for a moment."""
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class ServingAgent:
    """An agent of this node, as it says. Times are seconds since 1970."""

    process: int
    mount: str
    directories: Mapping[str, str]
    """Of each archive."""
    since: float
    heard: float
    """When the metadata servers last sent it something; 0 for not yet."""

    def text(self) -> str:
        """The agent in a line."""
        count = len(self.directories)
        last = f"last asked {time.time() - self.heard:.0f} s ago" if self.heard else "not asked yet"
        numbers = ", ".join(sorted(self.directories, key=int))
        return f"process {self.process}, of HSM archive{'s' if count > 1 else ''} {numbers}; {last}"


class ServingLock:
    """The lock of the agent of a client of Lustre."""

    def __init__(self, client: str, mount: str) -> None:
        """Take it. Raises GridwrightError where another agent has it."""
        RUN_DIRECTORY.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest = hashlib.sha256(client.encode(errors="surrogateescape")).hexdigest()[:24]
        self._place = RUN_DIRECTORY / f"{digest}.lock"
        self._file: int | None = _taken(self._place, mount)
        self._writing = threading.Lock()

    def say(self, agent: ServingAgent) -> None:
        """Write down what is served, as far as there is room. Any thread may."""
        text = json.dumps(asdict(agent)).encode()
        with self._writing, contextlib.suppress(OSError):
            if self._file is not None:
                os.pwrite(self._file, text, 0)
                os.ftruncate(self._file, len(text))

    def give_back(self) -> None:
        """Let the next one have it, and leave nothing of it behind."""
        with self._writing, contextlib.suppress(OSError):
            held, self._file = self._file, None
            self._place.unlink()
        if held is not None:
            os.close(held)


def serving_agent(directory: Path, archive_id: int) -> ServingAgent | None:
    """The agent of this node that has a directory; None for users, who may not look."""
    for place in RUN_DIRECTORY.glob("*.lock"):
        with contextlib.suppress(OSError):
            lock = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = _read_agent(lock)
                if found and found.directories.get(str(archive_id)) == str(directory):
                    return found
            finally:
                os.close(lock)
    return None


def remove_left_behind() -> None:
    """Remove locks of processes that were killed: nobody holds them any more."""
    for place in RUN_DIRECTORY.glob("*.lock"):
        with contextlib.suppress(OSError):
            lock = os.open(place, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Under its lock, since whoever takes it next looks whether the file is still there.
                if os.path.samestat(os.fstat(lock), place.stat()):
                    place.unlink()
            finally:
                os.close(lock)


def _taken(place: Path, mount: str) -> int:
    tries = 0
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read_agent(lock)
            os.close(lock)
            if (tries := tries + 1) < _TRIES:
                time.sleep(_PAUSE_S)
                continue
            raise _refusal(other, mount) from None
        # Whoever had it may have removed the file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), place.stat()):
                os.ftruncate(lock, 0)
                return lock
        os.close(lock)


def _refusal(other: ServingAgent | None, mount: str) -> GridwrightError:
    return environment_error(
        f"this node has an agent of it: {other.text() if other else 'another process'}",
        where=shown(mount),
        remedy="a client has one agent for all archives of a Lustre: name all directories in one command, "
        f"and end the other one first (systemctl status {other.process if other else 'PID'} shows its unit)",
    )


def _read_agent(lock: int) -> ServingAgent | None:
    """What the holder of a lock has written, in a directory of root's."""
    try:
        return ServingAgent(**json.loads(os.pread(lock, _MOST, 0)))
    except (ValueError, TypeError):
        return None
