"""What a rebalance found and did, on disk before anybody is told, so that the next one can go on.

A journal may lie on the very target that is to be relieved: where that is full it goes on in a new file,
which the file system puts where there is room.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import refusal
from gridwright.trusted import open_directory, open_file

FRESH_S = 24 * 3600.0
"""How long a search holds: then there are other files."""

_HELD = 1.1
_LEAST_MEASURED = 256 * 2**20
"""Fewer bytes than that are opened and closed for longer than they are moved."""
MOST_BYTES = 64 * 2**20
"""From here on a search begins a journal anew."""
_WRITTEN = os.O_RDWR | os.O_APPEND | os.O_CREAT


class MoveJournal:
    """Lines of JSON, one rebalance after another; one process at a time holds it.

    Raises GridwrightError (status ENVIRONMENT) where it cannot be written, or another rebalance holds it.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._open: FileIO | None = None
        self._lock: FileIO | None = None

    @property
    def _file(self) -> FileIO:
        if self._open is None:
            raise ValueError("the journal is not open")
        return self._open

    def __enter__(self) -> MoveJournal:
        try:
            with self._written():
                self.path.parent.parent.mkdir(parents=True, exist_ok=True)
                # Others read the journal, and who can open a file can lock it.
                lock = self.path.with_name(f".{self.path.name}-lock")
                self._lock = _opened(lock, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._open = _opened(self.path, _WRITTEN)
                self._append(b"\n")  # After a line that a kill has cut off.
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for file in (self._open, self._lock):
            if file is not None:
                file.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise environment_error(
                "another rebalance of this library runs",
                where=str(self.path),
                remedy="wait for it, or stop it",
            ) from None
        except OSError as error:
            otherwise = "run this as whoever keeps the state directory of the grid"
            why = refusal(self.path, error, otherwise, writes=True)
            raise environment_error(
                f"the journal cannot be written: {why.reason}", where=str(self.path), remedy=why.remedy
            ) from error

    def begin(self, wanted: Sequence[str], places: Sequence[str]) -> None:
        """Note that a search begins."""
        with self._written():
            if self.path.stat().st_size > MOST_BYTES:
                self._file.truncate(0)
        self.write({"do": "begin", "wanted": list(wanted), "places": list(places)})

    def write(self, *lines: Mapping[str, Any]) -> None:
        """Append, and have it on disk."""
        at = round(self._clock(), 3)
        with self._written():
            self._append("".join(json.dumps({"at": at, **line}) + "\n" for line in lines).encode())

    def _append(self, text: bytes) -> None:
        try:
            _write(self._file, text)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            with self._moved() as moved:
                _write(moved, b"\n" + text)

    @contextmanager
    def _moved(self) -> Iterator[FileIO]:
        """A new file with all that was written, which takes the place of the journal once it has the rest."""
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.part")
        moved = _opened(part, _WRITTEN | os.O_EXCL)
        try:
            self._file.seek(0)
            _write(moved, self._file.readall())
            yield moved
            part.replace(self.path)
        except BaseException:
            moved.close()
            with suppress(OSError):
                part.unlink()
            raise
        self._file.close()
        self._open = moved

    def left(self, wanted: Sequence[str], places: Sequence[str]) -> list[str] | None:
        """Paths that the last rebalance for the same layout and places found and did not come to.

        None where there is none to go on with: it came to its end, it was for something else, it was killed
        while it searched, or it is older than FRESH_S.
        """
        begin: dict[str, Any] = {}
        open_: dict[str, None] = {}
        for line in self._lines():
            match line.get("do"):
                case "begin":
                    begin, open_ = line, {}
                case "found":
                    open_ |= dict.fromkeys(line.get("paths", []))
                case "searched":
                    begin["searched"] = True
                case "moved" | "failed" | "gone" | "kept":
                    open_.pop(line.get("path", ""), None)
                case "end":
                    begin = {}
        same = (begin.get("wanted"), begin.get("places")) == (list(wanted), list(places))
        fresh = self._clock() - float(begin.get("at", 0)) < FRESH_S
        return list(open_) if begin.get("searched") and same and fresh else None

    def _lines(self) -> list[dict[str, Any]]:
        """All of it; a line that was cut off by a kill is left out."""
        self._file.seek(0)
        return [read for line in self._file.readall().splitlines() if (read := _read(line))]


def _opened(path: Path, flags: int, permissions: int = 0o644) -> FileIO:
    """Open a journal that nobody else can have written. Raises GridwrightError, OSError."""
    directory = open_directory(path.parent, make=0o755 if flags & os.O_CREAT else None)
    try:
        descriptor = open_file(directory, path.name, flags, permissions)
        # Without a buffer: what one keeps would be written, and fail, once more at the end.
        return FileIO(descriptor, "r" if flags == os.O_RDONLY else "r+")
    finally:
        os.close(directory)


def _write(file: FileIO, text: bytes) -> None:
    """Append all of it, and have it on disk. Raises OSError."""
    left = memoryview(text)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def measured_rate(path: Path) -> float | None:
    """Bytes/s at which files were moved where no limit held them, by a journal; None where it tells of none.

    Only moves that took a tenth longer than their limit asks for say what the storage delivers.
    """
    moving: dict[str, dict[str, Any]] = {}
    moved_bytes, seconds = 0, 0.0
    try:
        with _opened(path, os.O_RDONLY) as file:
            for line in map(_read, file.readall().splitlines()):
                if line.get("do") == "moving":
                    moving = {line.get("path", ""): line}
                elif line.get("do") == "moved" and (begun := moving.get(line.get("path", ""))):
                    size, took = int(begun.get("bytes", 0)), float(line.get("move_s", 0.0))
                    if took > _HELD * size / float(begun.get("limit", 0) or 1e-9):
                        moved_bytes, seconds = moved_bytes + size, seconds + took
    except (GridwrightError, OSError, TypeError, ValueError):
        return None
    return moved_bytes / seconds if moved_bytes >= _LEAST_MEASURED and seconds else None


def _read(line: bytes) -> dict[str, Any]:
    """A line; nothing of one that was cut off by a kill."""
    try:
        read = json.loads(line)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
