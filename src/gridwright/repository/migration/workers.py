"""Threads that copy, and who notices that the source does not answer."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.migration.copying import Copier, MigrationStopped
from gridwright.repository.placing import Placer
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.trash import moment_name
from gridwright.repository.walking import TreeWalk

THREADS = 8
MOST_AT_ONCE = 64
PATIENCE_S = 60.0
"""A source that is silent for longer hangs: an NFS client waits for its server for ever."""
_POLL_S = 0.2
_ENDING_S = 0.6


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Something to do for a path."""

    path: bytes
    act: Callable[[Copier], Any]
    done: Callable[[Any], None]
    """Called by the thread that collects, with what `act` gave."""
    failed: Callable[[Exception], None]
    inodes: Sequence[int] = ()
    """Directories of the source that the path lies in, as `Copier.expect` takes them."""


class Bandwidth:
    """Lets so many bytes a second pass, of all threads together."""

    def __init__(self, bytes_per_s: float | None, stop: threading.Event) -> None:
        self._rate = bytes_per_s
        self._stop = stop
        self._lock = threading.Lock()
        self._free = 0.0

    def wait(self, size: int) -> None:
        """Wait until so many bytes may pass. Raises MigrationStopped."""
        if self._stop.is_set():
            raise MigrationStopped
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free)
            self._free = begin + size / self._rate
        if self._stop.wait(begin - now):
            raise MigrationStopped


class CopyWorkers:
    """Copiers in threads of their own; one thread hands out and collects."""

    def __init__(
        self,
        source: Path,
        target: Path,
        report: RepositoryReport,
        *,
        bytes_per_s: float | None = None,
        progress: Callable[[int], None] = lambda _bytes: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._places = source, target
        self._report = report
        self.moment = moment_name()
        """Of the trash that all threads share."""
        self._stop = threading.Event()
        self._bandwidth = Bandwidth(bytes_per_s, self._stop)
        self._progress = progress
        self._patience_s = patience_s
        self._tasks: queue.SimpleQueue[CopyTask | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[CopyTask, Any, Exception | None]] = queue.SimpleQueue()
        self._asked: list[tuple[bytes, float] | None] = [None] * THREADS
        self._under_way = 0
        self._copiers: list[Copier] = []
        self.placers: list[Placer] = []
        """Those of the copiers, and of whoever hands out."""
        self.left_owners = False
        self.left_privileges = False
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True) for place in range(THREADS)
        ]
        for each in self._threads:
            each.start()

    def do(self, task: CopyTask) -> None:
        """Hand out a task; where many are under way, collect one before. Raises GridwrightError."""
        self.wait(MOST_AT_ONCE - 1)
        self._under_way += 1
        self._tasks.put(task)

    def wait(self, most: int = 0) -> None:
        """Collect until at most so many are under way. Raises GridwrightError where the source hangs."""
        while self._under_way > most:
            try:
                task, result, error = self._done.get(timeout=_POLL_S)
            except queue.Empty:
                self._look_for_hanging()
                continue
            self._under_way -= 1
            if error is None:
                task.done(result)
            else:
                task.failed(error)
        if not self._under_way:
            # No thread is at work: what is written next may be directories.
            for copier in self._copiers:
                copier.leave()
            # All at once: one removes what is empty of the trash that they share.
            for placer in self.placers:
                placer.settle()

    def watch(self, walk: TreeWalk) -> None:
        """Raise GridwrightError where a walk of the source hangs."""
        slowest = walk.slowest()
        if slowest is not None and slowest[1] > self._patience_s:
            raise self._silent(slowest[0])
        self._look_for_hanging()

    def _look_for_hanging(self) -> None:
        now = time.monotonic()
        for asked in self._asked:
            if asked is not None and now - asked[1] > self._patience_s:
                raise self._silent(asked[0])

    def _silent(self, path: bytes) -> GridwrightError:
        return silent_source(self._places[0], path, self._patience_s)

    def stop(self) -> None:
        """End all soon; a thread that hangs in the kernel is left behind."""
        self._stop.set()
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _ENDING_S
        for each in self._threads:
            each.join(max(0.0, until - time.monotonic()))

    def _work(self, place: int) -> None:
        def ask(path: bytes) -> None:
            self._asked[place] = (path, time.monotonic()) if path else None

        def pass_by(size: int) -> None:
            self._bandwidth.wait(size)
            self._progress(size)

        copier: Copier | None = None
        while (task := self._tasks.get()) is not None and not self._stop.is_set():
            result, failure = None, None
            try:
                if copier is None:
                    copier = Copier(*self._places, pass_by, ask, self._report, self.moment)
                    self._copiers.append(copier)
                    self.placers.append(copier.placer)
                copier.expect(task.inodes)
                result = task.act(copier)
                self.left_owners = self.left_owners or copier.left_owners
                self.left_privileges = self.left_privileges or copier.left_privileges
            except Exception as error:
                failure = error
            self._asked[place] = None
            self._done.put((task, result, failure))
        if copier is not None:
            with suppress(OSError):
                copier.close()


def silent_source(source: Path, path: bytes, patience_s: float) -> GridwrightError:
    """The error of a source that does not answer."""
    return environment_error(
        f"the source has not answered for {patience_s:.0f} s, at {os.fsdecode(path)!a}",
        where=str(source),
        remedy="see to its server and its mount, and run the command again: it goes on",
    )
