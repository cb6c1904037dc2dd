"""Files that somebody hands us, read within bounds: of size, of what is packed in them, of lines and values.

A small file may hold a thousand times its size, or what takes a hundred times its size to be understood. Each
limit is above what such files of our own have, and its error says what it is and what to do.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import resource
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gridwright.errors import input_error

BLOCK_BYTES = 1 << 20
MOST_TIMES = 250
"""So many times its size a packed file may hold; logs and accounting have at most a hundred."""
_ALWAYS_BYTES = 64 << 20
"""Unpacked, whatever the size of the file."""
SILENT_S = 30.0
"""How long a pipe that a user names may say nothing: who writes to it may have to log in somewhere first."""
MOST_COLUMNS = 1 << 20
"""Characters of a line."""
_MOST_CONTAINERS = 4_000_000
_MOST_VALUES = 16_000_000
"""Of a JSON document: together they are within two gigabytes of objects of Python."""
_GZIP = b"\x1f\x8b"


def open_file(path: Path, *, follows: bool = True) -> BinaryIO:
    """Open a file to read; neither a pipe nor a device is waited for. `follows` is whether it may be a link.

    Raises OSError.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follows else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123 - the caller closes it
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_within(path: Path, most_bytes: int, *, follows: bool = True) -> bytes:
    """The content of a file. Raises OSError, and ValueError where it is larger."""
    with open_file(path, follows=follows) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes >> 20} MiB, the limit of such a file")
    return content


def read_named(path: Path, most_bytes: int) -> bytes:
    """The content of a file that a user names, or the first byte beyond `most_bytes` with what is before it.

    A pipe is read, too, such as `<(COMMAND)` or /dev/stdin, until it is closed: what is silent for SILENT_S
    seconds is not waited for any longer. Raises OSError.
    """
    content = bytearray()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        while len(content) <= most_bytes:
            if waits:
                _wait_for(descriptor, path)
            with suppress(BlockingIOError):  # Another reader of the pipe was faster.
                block = os.read(descriptor, min(BLOCK_BYTES, most_bytes + 1 - len(content)))
                if not block:
                    break
                content += block
    finally:
        os.close(descriptor)
    return bytes(content)


def _wait_for(descriptor: int, path: Path) -> None:
    """Wait until there is something to read, or the end of it. Raises TimeoutError."""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    if not ready.poll(SILENT_S * 1000):
        what = f"it is no regular file, and nobody wrote to it for {SILENT_S:g} s"
        raise TimeoutError(errno.ETIMEDOUT, what, str(path))


def unpacked(file: BinaryIO, path: Path, size: int = sys.maxsize) -> Iterator[bytes]:
    """Yield what a file holds in blocks, unpacked where gzip packed it, else at most `size` bytes.

    Raises OSError, and GridwrightError, which names `path`, where it is packed badly or holds too much.
    """
    packed = file.read(2) == _GZIP
    file.seek(0)
    return _unpacked(file, path) if packed else _blocks(file, size)


def unpacked_within(path: Path, most_bytes: int) -> bytes:
    """All that a file holds, unpacked where gzip packed it. Raises as `unpacked`; ValueError for more."""
    content = bytearray()
    with open_file(path) as file:
        for block in unpacked(file, path):
            content += block
            if len(content) > most_bytes:
                raise ValueError(f"it holds more than {most_bytes >> 20} MiB, the limit of such a file")
    return bytes(content)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left > 0 and (block := file.read(min(left, BLOCK_BYTES))):
        left -= len(block)
        yield block


def _unpacked(file: BinaryIO, path: Path) -> Iterator[bytes]:
    most = _ALWAYS_BYTES + MOST_TIMES * os.fstat(file.fileno()).st_size
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            while block := unpacked.read(BLOCK_BYTES):
                most -= len(block)
                if most < 0:
                    break
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise input_error(
            f"it cannot be unpacked: {error}",
            where=str(path),
            remedy="copy it anew, or see what is wrong with it: gzip --test FILE",
        ) from error
    if most < 0:
        raise input_error(
            f"it holds more than {MOST_TIMES} times its size, which is the limit of packed files",
            where=str(path),
            remedy="if that is right, unpack it (gzip -dk FILE) and name the file that this makes",
        )


def text_lines(file: BinaryIO, path: Path, most_lines: int, remedy: str) -> Iterator[str]:
    """The lines of a file, unpacked where gzip packed it. Raises as `unpacked`, and for endless lines."""
    text = io.TextIOWrapper(io.BufferedReader(_Pieces(unpacked(file, path))), "utf-8", "replace")
    for number, line in enumerate(iter(lambda: text.readline(MOST_COLUMNS + 1), ""), 1):
        if len(line) > MOST_COLUMNS:
            what = f"its line {number} is longer than {MOST_COLUMNS >> 20} million characters, the limit"
            raise input_error(what, where=str(path), remedy=remedy)
        if number > most_lines:
            raise input_error(
                f"it has more than {most_lines} lines, the limit of such a file",
                where=str(path),
                remedy=remedy,
            )
        yield line


class _Pieces(io.RawIOBase):
    """Blocks as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer of bytes
        """Fill a buffer with what comes next."""
        self._rest = self._rest or next(self._pieces, b"")
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def checked_json(content: bytes) -> bytes:
    """The content, if it takes a bounded memory to read it as JSON. Raises ValueError."""
    if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS or content.count(b",") > _MOST_VALUES:
        raise ValueError(
            f"it has more than {_MOST_VALUES} values, or {_MOST_CONTAINERS} lists and mappings, the limit"
        )
    return content


def parsed_json(content: bytes) -> Any:  # noqa: ANN401 - any document
    """The value of a document. Raises ValueError, also where it is nested without end."""
    try:
        return json.loads(checked_json(content))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


@contextmanager
def memory_within(most_bytes: int) -> Iterator[None]:
    """Have this process get no more memory than so much beyond what it has: then allocations fail.

    For libraries that believe sizes which stand in a file, and raise where they get no memory.
    """
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - a file of the kernel
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = now + most_bytes
    if soft != resource.RLIM_INFINITY and soft <= bound:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
