"""A node's part in trials of a shared file system: `python -m gridwright.doctor.probes.node`.

It reads orders, one JSON document a line, and answers each with one; whoever orders brings two nodes' parts
into step, so that no part waits for a file of the other. All it makes is in one directory of the library,
which goes when the orders end, however they end. Nothing is imported that is slow to start.

The directory is opened once, and all in it is reached from there: users may own the library, and put a
directory with links in the place of ours at any moment.

Orders and answers are declared in `gridwright.doctor.messages`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gridwright.beneath import OwnDirectory, open_own, own_directories
from gridwright.doctor.messages import (
    ANSWERS,
    ORDERS,
    Append,
    Begin,
    Count,
    Done,
    GiveBack,
    Look,
    OrderRefused,
    Put,
    Read,
    Ready,
    TakeLock,
    Time,
    TrialOrder,
    TryLock,
    Write,
)
from gridwright.errors import GridwrightError
from gridwright.messages import MessageError
from gridwright.trusted import read_file

PREFIX = ".gridwright-probe-"
MARKER = "gridwright-probe"
"""The file in it that proves that a directory is one of trials, whoever gave it its name."""
STALE_S = 600.0
"""A directory of trials that is older was left by a machine that stopped."""
RECORD_BYTES = 512


class Probe:
    """The state of a part: its directory and the files that it holds locked."""

    def __init__(self) -> None:
        self._place: Path | None = None
        self._opened: int | None = None
        self._library: int | None = None
        """The open library, where this part makes the directory."""
        self._locked: dict[str, int] = {}
        self._handlers: dict[type[TrialOrder], Callable[[Any], bool | float | str | dict[str, int]]] = {
            Begin: self._begin,
            Look: lambda _: self._is_seen(),
            Write: self._write,
            Read: lambda order: self._content(order.name).decode(),
            Put: self._put,
            TakeLock: self._lock,
            GiveBack: self._unlock,
            TryLock: self._try,
            Append: self._append,
            Count: lambda order: count_records(self._content(order.name)),
            Time: lambda _: time.time(),
        }

    def obey(self, order: TrialOrder) -> bool | float | str | dict[str, int]:
        """Carry out an order. Raises OSError, and LookupError where no directory was begun."""
        return self._handlers[type(order)](order)

    def close(self) -> None:
        """Leave nothing behind."""
        for file in self._locked.values():
            os.close(file)
        self._locked.clear()
        if self._place is not None and self._opened is not None and self._library is not None:
            OwnDirectory(self._place, self._opened, self._library).remove()
        for descriptor in (self._opened, self._library):
            if descriptor is not None:
                os.close(descriptor)
        self._opened = self._library = None

    def _begin(self, order: Begin) -> bool:
        # What an earlier trial of this part made and holds goes first.
        self.close()
        self._place = None
        library = Path(order.directory)
        place = library / f"{PREFIX}{order.mark}"
        if order.owner:
            _remove_stale(library)
            self._library = os.open(library, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            os.mkdir(place.name, 0o700, dir_fd=self._library)
            self._opened = open_own(place.name, directory=self._library)
            self._place = place
            os.close(self._open(MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        self._place = place
        return True

    def _is_seen(self) -> bool:
        if self._place is None:
            raise LookupError("no directory was begun")
        return self._place.is_dir() and not self._place.is_symlink()

    def _there(self) -> int:
        if self._place is None:
            raise LookupError("no directory was begun")
        if self._opened is None:
            self._opened = open_own(self._place)
        return self._opened

    def _open(self, name: str, flags: int) -> int:
        """Open a regular file of the directory that has no other name. Raises OSError."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(Path(name).name, flags, 0o600, dir_fd=self._there())
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(file)
            raise OSError(errno.ESTALE, "another file has come in its place", name)
        return file

    def _content(self, name: str) -> bytes:
        with os.fdopen(self._open(name, os.O_RDONLY), "rb") as file:
            return file.read()

    def _write(self, order: Write) -> bool:
        with os.fdopen(self._open(order.name, os.O_WRONLY | os.O_CREAT), "w") as file:
            file.truncate()
            file.write(order.text)
        return True

    def _put(self, order: Put) -> bool:
        name = Path(order.name).name
        with suppress(FileNotFoundError):
            os.unlink(f"{name}.new", dir_fd=self._there())
        with os.fdopen(self._open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write(order.text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{name}.new", name, src_dir_fd=self._there(), dst_dir_fd=self._there())
        return True

    def _lock(self, order: TakeLock) -> bool:
        file = self._open(order.name, os.O_RDWR | os.O_CREAT)
        self._locked[order.kind] = file
        _take(order.kind, file)
        return True

    def _unlock(self, order: GiveBack) -> bool:
        # Closing lets go of both kinds (flock(2), fcntl(2)).
        os.close(self._locked.pop(order.kind))
        return True

    def _try(self, order: TryLock) -> bool:
        """Whether the lock was free; it is given back at once."""
        file = self._open(order.name, os.O_RDWR)
        try:
            _take(order.kind, file)
        except BlockingIOError:
            return False
        except PermissionError:
            # EACCES is the other word for a lock that is held (fcntl(2)).
            return False
        finally:
            os.close(file)
        return True

    def _append(self, order: Append) -> bool:
        file = self._open(order.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for number in range(order.records):
                os.write(file, record(order.who, number))
            os.fsync(file)
        finally:
            os.close(file)
        return True


def record(who: str, number: int) -> bytes:
    """A record of fixed length that tells who wrote it, and ends where it should."""
    head = f"{who} {number} "
    return (head + "." * (RECORD_BYTES - 1 - len(head)) + "\n").encode()


def count_records(data: bytes) -> dict[str, int]:
    """Whole records by who wrote them, and under the empty name what is torn."""
    found: dict[str, int] = {"": 0}
    for start in range(0, len(data), RECORD_BYTES):
        words = data[start : start + RECORD_BYTES].decode(errors="replace").split(" ")
        whole = len(words) == 3 and words[1].isdigit() and words[2].strip(".") == "\n"
        if whole and data[start : start + RECORD_BYTES] == record(words[0], int(words[1])):
            found[words[0]] = found.get(words[0], 0) + 1
        else:
            found[""] += 1
    return found


def _take(kind: str, file: int) -> None:
    (fcntl.flock if kind == "flock" else fcntl.lockf)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_stale(library: Path) -> None:
    for own in own_directories(library, PREFIX):
        if time.time() - os.fstat(own.descriptor).st_mtime > STALE_S:
            with suppress(GridwrightError, OSError):
                # One in which nothing lies was left before it had its marker.
                if os.listdir(own.descriptor):  # noqa: PTH208 - of a descriptor
                    read_file(own.descriptor, MARKER)
                own.remove()


def _stop(*_: object) -> None:
    sys.exit(0)


def main() -> None:
    """Obey orders until they end."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _stop)
    probe = Probe()
    try:
        _say(Ready(socket.gethostname()))
        for line in sys.stdin:
            try:
                _say(Done(probe.obey(ORDERS.decode(line))))
            except OSError as error:
                _say(OrderRefused(error.strerror or str(error)))
            except (LookupError, MessageError) as error:
                _say(OrderRefused(f"{type(error).__name__}: {error}"))
    except BrokenPipeError:
        pass
    finally:
        probe.close()
        # Whoever ordered may be gone: what is left in the buffer has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(answer: Ready | Done | OrderRefused) -> None:
    sys.stdout.write(ANSWERS.encode(answer).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
