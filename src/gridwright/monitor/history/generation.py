"""How other users read a history: without a lock, since whoever may lock a file can hold up who writes it.

A read lock takes a file that is open for reading, no more (fcntl(2), flock(2)). One on the shared memory of
an SQLite database in WAL mode keeps its log from being emptied, or the writer from writing. So the writer of
a history that others read asks for no lock and has no shared memory.

What it commits goes into the log, which it moves into the database every few seconds. Seconds that are in
the log alone are in a second file, too, NAME-recent. Before a move it makes the number in NAME-generation
odd, and even again behind it. A reader looks at the database and at the recent seconds; where the number has
changed meanwhile, it reads again.
"""

from __future__ import annotations

import os
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NUMBER, RECENT = "-generation", "-recent"
"""The names of the files are that of the database, and these."""
_NUMBER = struct.Struct("<Q")
_SECOND = struct.Struct("<qqIII")
"""Second, number of its list of keys, bytes of that list (0: it is stored), bytes of values, CRC-32."""
_PAUSE_S = 0.005

RecentSecond = tuple[int, int, bytes, bytes]
"""Second, number of its list of keys, that list where it is new, values; both compressed."""


class Generation:
    """The files beside a history that others read, of its one writer. Raises OSError."""

    def __init__(self, path: Path) -> None:
        """Open them beside the database at `path`, and make them where they are not."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(f"{path}{NUMBER}", flags, 0o644)
        try:
            self._number = _number_in(self._file) or 0
            self._recent = os.open(f"{path}{RECENT}", flags | os.O_APPEND, 0o644)
        except OSError:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        os.close(self._recent)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The log is moved within. The number stays odd where that fails: the database may have a part."""
        self._put(self._number | 1)
        yield
        os.ftruncate(self._recent, 0)
        self._put((self._number | 1) + 1)

    def add(self, second: int, order: int, keys: bytes, values: bytes) -> None:
        """Show a second that is in the log."""
        content = keys + values
        sizes = (len(keys), len(values), zlib.crc32(content))
        os.write(self._recent, _SECOND.pack(second, order, *sizes) + content)

    def _put(self, number: int) -> None:
        os.pwrite(self._file, _NUMBER.pack(number), 0)
        self._number = number


def generation_of(path: Path, wait_s: float) -> int | None:
    """The number of a history whose log is not being moved; None where its writer keeps none.

    Raises TimeoutError where it is being moved for `wait_s` seconds, and OSError.
    """
    file = _opened(f"{path}{NUMBER}")
    if file is None:
        return None
    deadline = time.monotonic() + wait_s
    try:
        while (number := _number_in(file)) is not None and number % 2:
            if time.monotonic() > deadline:
                raise TimeoutError("its writer was ended while it wrote, and has not come back")
            time.sleep(_PAUSE_S)
        return number
    finally:
        os.close(file)


def recent_seconds(path: Path) -> Iterator[RecentSecond]:
    """Whole seconds that are not in the database yet. Raises OSError."""
    file = _opened(f"{path}{RECENT}")
    if file is None:
        return
    with os.fdopen(file, "rb") as opened:
        content = opened.read()
    at = 0
    while at + _SECOND.size <= len(content):
        second, order, keys, values, check = _SECOND.unpack_from(content, at)
        at += _SECOND.size
        if at + keys + values > len(content) or zlib.crc32(content[at : at + keys + values]) != check:
            return
        yield second, order, content[at : at + keys], content[at + keys : at + keys + values]
        at += keys + values


def _opened(name: str) -> int | None:
    """A regular file; None where it is not there."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _number_in(file: int) -> int | None:
    content = os.pread(file, _NUMBER.size, 0)
    return int(_NUMBER.unpack(content)[0]) if len(content) == _NUMBER.size else None
