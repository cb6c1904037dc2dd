"""Moves files of a library that are laid out otherwise than they should be, one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridwright.commands import CommandStopped
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.moving import FileMover, LaidOutFile, Move, misplaced_bytes, relieving
from gridwright.layouts.journal import MoveJournal
from gridwright.units import format_bytes

BUSY_LOOK_S = 15.0
"""How often the scheduler is asked whether jobs run."""
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
    """The layout as the journal knows it again."""
    at_least_bytes: int
    bytes_per_s: float
    verify: bool = False
    dry_run: bool = False


@dataclass(slots=True)
class Rebalance:
    """What was found, and what became of it."""

    order: RebalanceOrder
    targets: int = 0
    looked_at: int = 0
    resumed: bool = False
    found: list[LaidOutFile] = field(default_factory=list)
    relieving: int = 0
    """Of those found, the files that lie as they should, on targets that are too full."""
    kept: list[LaidOutFile] = field(default_factory=list)
    done: list[tuple[LaidOutFile, Move]] = field(default_factory=list)
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
    def found_bytes(self) -> int:
        """Bytes that have to be read and written."""
        return sum(each.size_bytes for each in self.found)

    @property
    def estimated_s(self) -> float:
        """Seconds for all that was found, at the rate that it may go."""
        return self.found_bytes / self.order.bytes_per_s

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
            "found_bytes": self.found_bytes,
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
        whence = "left by the last one" if self.resumed else f"of {self.looked_at} looked at"
        full = f", or on OSTs that are too full ({self.relieving})" if self.relieving else ""
        yield (
            f"{len(self.found)} files ({format_bytes(self.found_bytes)}) lie otherwise{full}, {whence}; "
            f"about {_span(self.estimated_s)} at {format_bytes(int(order.bytes_per_s))}/s"
        )
        if self.kept:
            yield f"{len(self.kept)} are left alone, such as {self.kept[0].path}: {self.kept[0].kept}"
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
        left = journal.left(order.options, order.places) if journal else None
        result.resumed = left is not None
        if left is None and journal:
            journal.begin(order.options, order.places)
        # One that was found yesterday may have grown, gone or been moved since: all are looked at again.
        places = order.places if left is None else left
        excess, on_full = self._mover.excess(), list[LaidOutFile]()
        for each in self._mover.files(places, order.at_least_bytes) if places else ():
            result.looked_at += 1
            if 2 * misplaced_bytes(each, order.layout, result.targets) > each.size_bytes:
                (result.kept if each.kept else result.found).append(each)
            elif not each.kept and any(excess.keys() & set(part.osts) for part in each.layout.components):
                on_full.append(each)
        more = relieving(on_full, excess, result.targets)
        result.relieving = len(more)
        result.found += more
        result.found.sort(key=lambda each: -each.size_bytes)
        if journal and left is None:
            paths = [each.path for each in result.found]
            batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
            journal.write(*({"do": "found", "paths": each} for each in batches), {"do": "searched"})

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
            journal.write({"do": "moving", "path": file.path, "bytes": file.size_bytes})
            move = self._move(file, result.order, journal)
            journal.write({"do": move.state, "path": file.path, "why": move.why})
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

    def _move(self, file: LaidOutFile, order: RebalanceOrder, journal: MoveJournal) -> Move:
        begun = time.monotonic()
        before = self._sum(file) if order.verify else None
        move = self._mover.move(file, order.layout, order.bytes_per_s)
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

    def _sum(self, file: LaidOutFile) -> tuple[str, str]:
        """The SHA-256 of a file, and its size and time of change, which tell whether it was written to."""
        limit = 60 + file.size_bytes / SLOWEST_SUM
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


def jobs_run(states: Callable[[], Sequence[Any]]) -> Callable[[], str | None]:
    """What asks whether jobs run: nodes as a scheduler sees them, with cores and free cores."""

    def ask() -> str | None:
        try:
            busy = [each for each in states() if each.free_cores < each.cores]
        except GridwrightError as error:
            return f"nobody tells whether jobs run ({error.problems[0].what})"
        cores = sum(each.cores - each.free_cores for each in busy)
        return f"jobs use {cores} cores on {len(busy)} nodes" if busy else None

    return ask
