"""Moves files of a library that are laid out otherwise than they should be, one after another.

Its journal has what was found and done on disk before anybody is told, so that the next one can go on. It may
lie on the very target that is to be relieved: where that is full it goes on in a new file, which the file
system puts where there is room. While a grid is busy, by its scheduler or by what is measured, moving waits.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from gridwright.commands import CommandStopped
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems.counters import ReadCounts, traffic
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import (
    FileLayout,
    FileMover,
    FilePlacement,
    FileSearch,
    Move,
    counted,
    relieving,
)
from gridwright.refusals import refusal
from gridwright.trusted import open_directory, open_file
from gridwright.units import format_bytes, format_rate

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


BUSY_LOOK_S = 15.0
"""How often it is asked whether the grid is busy."""
SLOWEST_SUM = 20e6
"""In bytes/s, for the time that a checksum may take."""
_SHOWN = 20
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceOrder:
    """What is to be moved, and how."""

    library: str
    places: Sequence[str]
    """Directories and files below the library's directory, or that itself."""
    layout: FileLayout
    options: Sequence[str]
    """The layout as options of lfs."""
    at_least_bytes: int
    bytes_per_s: float
    verify: bool = False
    dry_run: bool = False
    target_bytes_per_s: float | None = None
    """What one target delivers, as the model has it; None where nothing is known."""
    measured_bytes_per_s: float | None = None
    """At which rate the last rebalance moved files where no limit held it; None where there was none."""

    @property
    def key(self) -> Sequence[str]:
        """As the journal knows it again: what an order for larger files has left is not all of this one."""
        return [*self.options, f"from {self.at_least_bytes} bytes"]


@dataclass(slots=True)
class Rebalance:
    """What was found, and what became of it."""

    order: RebalanceOrder
    targets: int = 0
    looked_at: int = 0
    resumed: bool = False
    found: list[FilePlacement] = field(default_factory=list)
    relieving: int = 0
    """Of those found, the files that lie as they should, on targets that are too full."""
    more: int = 0
    """Smaller files that a search after this one will find."""
    unread: int = 0
    kept: list[FilePlacement] = field(default_factory=list)
    done: list[tuple[FilePlacement, Move]] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str | None = None
    """Why it ended before all was done."""
    interrupted: bool = False

    def bytes_of(self, state: str) -> int:
        """Bytes of files that came out so."""
        return sum(file.size_bytes for file, move in self.done if move.state == state)

    def count(self, state: str) -> int:
        """Files that came out so."""
        return sum(move.state == state for _, move in self.done)

    @property
    def total_bytes(self) -> int:
        """Bytes that have to be read and written."""
        return sum(each.size_bytes for each in self.found)

    @property
    def estimated_s(self) -> float:
        """Seconds for all that was found: what the limit takes, or what targets do, whichever is longer."""
        return sum(map(self._estimated_s, self.found))

    def _estimated_s(self, file: FilePlacement) -> float:
        """A move reads a piece and writes it, one after the other; a check reads all of it twice more."""
        order, size = self.order, file.size_bytes
        held_s = size / order.bytes_per_s
        moved_s, read_s = 0.0, held_s
        if order.target_bytes_per_s:
            has = counted(file.layout.component_at(size // 2).targets, self.targets)
            should = counted(order.layout.component_at(size // 2).stripe_count, self.targets)
            before_s, after_s = (size / (max(each, 1) * order.target_bytes_per_s) for each in (has, should))
            moved_s, read_s = before_s + after_s, (before_s + after_s) / 2
        if order.measured_bytes_per_s:
            moved_s = size / order.measured_bytes_per_s
        return max(held_s, moved_s) + (2 * read_s if order.verify else 0.0)

    @property
    def estimated_by(self) -> str:
        """What the estimate rests on, in words."""
        limit = f"{format_rate(self.order.bytes_per_s)} at most"
        if self.order.measured_bytes_per_s:
            return f"{limit}; the last one reached {format_rate(self.order.measured_bytes_per_s)}"
        if self.order.target_bytes_per_s:
            return f"{limit}; an OST delivers {format_rate(self.order.target_bytes_per_s)}"
        return limit

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        fates = {file.path: move for file, move in self.done}
        return {
            "library": self.order.library,
            "places": list(self.order.places),
            "wanted": self.order.layout.text,
            "osts": self.targets,
            "files_looked_at": self.looked_at,
            "resumed": self.resumed,
            "estimated_s": round(self.estimated_s, 1),
            "estimated_by": self.estimated_by,
            "more": self.more,
            "unread": self.unread,
            "found_bytes": self.total_bytes,
            "on_full_osts": self.relieving,
            "moved_bytes": self.bytes_of("moved"),
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "files": [
                {
                    "path": each.path,
                    "bytes": each.size_bytes,
                    "layout": each.layout.text,
                    "state": fates[each.path].state if each.path in fates else "left",
                    "why": fates[each.path].why if each.path in fates else "",
                }
                for each in self.found
            ],
            "kept": [{"path": e.path, "bytes": e.size_bytes, "why": e.kept} for e in self.kept],
        }

    def text(self) -> str:
        """For people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        order = self.order
        yield f"{order.library}: {', '.join(order.places)}: wanted is {order.layout.text}"
        origin = "left by the last one" if self.resumed else f"of {self.looked_at} looked at"
        full = f", or on OSTs that are too full ({self.relieving})" if self.relieving else ""
        yield (
            f"{len(self.found)} files ({format_bytes(self.total_bytes)}) lie otherwise{full}, {origin}; "
            f"about {_span(self.estimated_s)} ({self.estimated_by})"
        )
        if self.more:
            yield f"{self.more} more, smaller ones: the same command finds them when these are moved"
        if self.unread:
            yield f"{self.unread} files or directories could not be looked at"
        if self.kept:
            reasons = Counter(each.kept for each in self.kept)
            for why, number in reasons.most_common():
                first = next(each.path for each in self.kept if each.kept == why)
                yield f"{number} left alone, such as {first}: {why}"
        if order.dry_run:
            for each in self.found[:_SHOWN]:
                yield f"  {each.path}: {format_bytes(each.size_bytes)}, {each.layout.text}"
            if len(self.found) > _SHOWN:
                yield f"  and {len(self.found) - _SHOWN} more (--json has all)"
            return
        moved = f"moved {self.count('moved')} files ({format_bytes(self.bytes_of('moved'))})"
        yield f"{moved} in {_span(self.seconds)}" + (", each verified" if order.verify else "")
        for state, words in (("busy", "open elsewhere"), ("gone", "gone"), ("failed", "failed")):
            some = [(file, move) for file, move in self.done if move.state == state]
            if some:
                why = f": {some[0][1].why}" if some[0][1].why else ""
                yield f"{len(some)} {words}, such as {some[0][0].path}{why}"
        if self.stopped:
            yield f"stopped: {self.stopped}; the same command goes on where it ended"


class Rebalancer:
    """Finds files and moves them; `busy` tells why jobs should be left in peace, `tell` what happens."""

    def __init__(
        self,
        mover: FileMover,
        run: Run,
        journal: MoveJournal | None,
        *,
        busy: Callable[[], str | None],
        stop: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        self._mover, self._run, self._journal = mover, run, journal
        self._busy, self._stop, self._tell = busy, stop, tell
        self._asked = -BUSY_LOOK_S
        self._move_s = 0.0

    def rebalance(self, order: RebalanceOrder) -> Rebalance:
        """Move what is to be moved; `journal` is None for a dry run.

        Raises GridwrightError (status ENVIRONMENT) where nothing answers, and where a file that was verified
        holds other bytes than before: then nothing more is moved.
        """
        result = Rebalance(order)
        begun = time.monotonic()
        try:
            result.targets = self._mover.targets()
            self._find(result)
            if self._journal is not None and not order.dry_run:
                self._move_all(result, self._journal)
        except CommandStopped:
            result.interrupted, result.stopped = True, "it was told to"
        result.seconds = time.monotonic() - begun
        return result

    def _find(self, result: Rebalance) -> None:
        order, journal = result.order, self._journal
        left = journal.left(order.key, order.places) if journal else None
        result.resumed = left is not None
        if left is None and journal:
            journal.begin(order.key, order.places)
        # One that was found yesterday may have grown, gone or been moved since: all are looked at again.
        places = order.places if left is None else left
        excess = self._mover.excess()
        seen = FileSearch()
        if places:
            seen = self._mover.search(
                places, order.at_least_bytes, order.layout, excess.keys(), may_be_gone=left is not None
            )
        result.looked_at, result.more, result.unread = seen.looked_at, seen.more, seen.unread
        for placement in seen.misplaced:
            (result.kept if placement.kept else result.found).append(placement)
        movable = [each for each in seen.on_full if each.kept is None]
        more = relieving(movable, excess, result.targets)
        result.relieving = len(more)
        result.found += more
        result.found.sort(key=lambda each: -each.size_bytes)
        if journal and left is None:
            paths = [each.path for each in result.found]
            batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
            journal.write(*({"do": "found", "paths": batch} for batch in batches), {"do": "searched"})

    def _move_all(self, result: Rebalance, journal: MoveJournal) -> None:
        for place, file in enumerate(result.found):
            if self._stop():
                result.interrupted, result.stopped = True, "it was told to"
                return
            if time.monotonic() - self._asked >= BUSY_LOOK_S:
                self._asked, why = time.monotonic(), self._why_busy()
                if why is not None or self._stop():
                    result.interrupted, result.stopped = why is None, why or "it was told to"
                    return
            journal.write(
                {
                    "do": "moving",
                    "path": file.path,
                    "bytes": file.size_bytes,
                    "limit": result.order.bytes_per_s,
                }
            )
            self._move_s = 0.0
            move = self._move(file, result.order, journal)
            took = round(self._move_s, 3)
            journal.write({"do": move.state, "path": file.path, "why": move.why, "move_s": took})
            result.done.append((file, move))
            said = f": {move.why}" if move.why else ""
            self._tell(f"{place + 1}/{len(result.found)} {move.state}: {file.path}{said}")
        journal.write({"do": "end"})

    def _why_busy(self) -> str | None:
        """What `busy` says; a scheduler that does not answer keeps no order to stop waiting."""
        told: list[str | None] = []
        asking = threading.Thread(target=lambda: told.append(self._busy()), daemon=True)
        asking.start()
        while asking.is_alive() and not self._stop():
            asking.join(0.1)
        return told[0] if told else None

    def _move(self, file: FilePlacement, order: RebalanceOrder, journal: MoveJournal) -> Move:
        begun = time.monotonic()
        before = self._sum(file) if order.verify else None
        moving = time.monotonic()
        move = self._mover.move(file, order.layout, order.bytes_per_s)
        self._move_s = time.monotonic() - moving
        if move.state == "moved" and before is not None:
            after = self._sum(file)
            if before[1] == after[1] and before[0] != after[0]:
                journal.write({"do": "differs", "path": file.path, "before": before[0], "after": after[0]})
                raise environment_error(
                    "the file holds other bytes than before it was moved: nothing more is moved",
                    where=file.path,
                    remedy="restore it from a backup beside it, and look at the logs of the servers",
                )
        # A release that holds no rate itself is held to it on average.
        pause = file.size_bytes / order.bytes_per_s - (time.monotonic() - begun)
        while move.state == "moved" and pause > 0 and not self._stop():
            time.sleep(min(pause, 0.1))
            pause -= 0.1
        return move

    def _sum(self, file: FilePlacement) -> tuple[str, str]:
        """The SHA-256 of a file, and its size and time of change, which tell whether it was written to."""
        limit = 60 + file.longest_bytes / SLOWEST_SUM
        stat = self._run(["stat", "--format=%s %Y %y", "--", file.path], timeout_s=60).stdout.decode()
        told = self._run(["sha256sum", "--zero", "--", file.path], timeout_s=limit)
        if told.status != 0:
            raise environment_error(
                f"its checksum is not told: {told.stderr.decode(errors='replace').strip()[:200]}",
                where=file.path,
                remedy="run this as root, or without --verify",
            )
        return told.stdout[:64].decode(), stat


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


Busy = Callable[[], str | None]
"""Says why jobs should be left in peace; None where nothing speaks against moving."""
BUSY_SHARE = 0.5
"""Of the rate that a rebalance may have: who moves more than that beside it would feel it."""
SPAN_S = 1.0
"""How long is counted: requests of some MiB come and go within tens of milliseconds."""


def first_of(*asked: Busy) -> Busy:
    """The first reason of several."""
    return lambda: next((why for each in asked if (why := each()) is not None), None)


def jobs_run(states: Callable[[], Sequence[Any]]) -> Callable[[], str | None]:
    """What asks whether jobs run: nodes as a scheduler sees them, with cores and free cores."""

    def ask() -> str | None:
        try:
            busy = [state for state in states() if state.free_cores < state.cores]
        except GridwrightError as error:
            return f"nobody tells whether jobs run ({error.problems[0].what})"
        cores = sum(state.cores - state.free_cores for state in busy)
        return f"jobs use {cores} cores on {len(busy)} nodes" if busy else None

    return ask


def traffic_beside(
    read: ReadCounts | None, above_bytes_per_s: float, *, pause: Callable[[float], None] = time.sleep
) -> Busy:
    """What measures how much this client moves beside the rebalance: it is asked while no file is moved.

    `read` counts what the client moved; None, and counters that nobody may read, speak against nothing. Other
    clients are not seen.
    """

    def ask() -> str | None:
        try:
            before = read() if read else {}
            if not read or not before:
                return None
            pause(SPAN_S)
            moved = traffic(before, read())
        except GridwrightError:
            return None
        rate = sum((each.read_bytes + each.written_bytes) / each.seconds for each in moved)
        if rate <= above_bytes_per_s:
            return None
        return f"this machine moves {format_rate(rate)} to and from it, over {format_rate(above_bytes_per_s)}"

    return ask
