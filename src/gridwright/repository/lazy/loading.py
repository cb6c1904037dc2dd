"""The loader: answers accesses once their ranges are here, and fetches what is missing.

It knows no sockets and no events: requests come in by a call, answers go out by one.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gridwright.repository.lazy import filling
from gridwright.repository.lazy.fetching import MOST_BYTES, Fetch, FetchQueue, ReadAhead, Urgency, runs
from gridwright.repository.lazy.loaded_ranges import DamagedRanges, LoadedRanges, read_ranges
from gridwright.repository.lazy.names import path_of
from gridwright.repository.lazy.relay import LoadAnswer, LoadRequest, Wish
from gridwright.repository.references import FileState, StateError, read_state
from gridwright.repository.store import RangeSource, StoreError, StoreFault

FETCHERS = 8
"""Requests to the store at a time; each holds at most 8 MiB, or one chunk, in memory."""
MOST_AHEAD = 32
"""Chunks ahead of somebody who reads in order."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_MAY_PASS = frozenset({StoreFault.THROTTLED, StoreFault.UNREACHABLE, StoreFault.DAMAGED})
_TOLD = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a reader is told as it is; all else is an EIO."""

FileId = tuple[int, int]


@dataclass(slots=True, eq=False)
class _Waiter:
    request: LoadRequest
    deadline: float
    loaded: int = 0


@dataclass(slots=True, eq=False)
class _File:
    """A file that somebody waits for, or that is being loaded."""

    identity: FileId
    descriptor: int
    state: FileState
    ranges: LoadedRanges
    waiters: list[_Waiter] = field(default_factory=list)
    under_way: dict[int, Fetch[_File]] = field(default_factory=dict)
    filling: threading.Lock = field(default_factory=threading.Lock)
    is_finished: bool = False
    is_filled: bool = False
    """While content is written, nobody's access goes on."""


class Loader:
    """Answers requests about files that are names only. Its threads are those of one process."""

    def __init__(
        self,
        source_of: Callable[[str], RangeSource],
        answer: Callable[[LoadAnswer], None],
        complete: Callable[[int], None],
        log: Callable[[str], None],
        *,
        patience_s: float,
        nobody_wrote: bool,
        fetchers: int = FETCHERS,
    ) -> None:
        """Start its threads.

        `source_of` a bucket gives its objects; `complete` is told the descriptor of a file of which all is
        here, before the file says so itself. A request ends with EIO after `patience_s` seconds in which
        nothing of it came. `nobody_wrote` says whether all accesses have waited since the loader before this
        one ended.
        """
        self._source_of = source_of
        self._answer = answer
        self._complete = complete
        self._log = log
        self._patience_s = patience_s
        self._nobody_wrote = nobody_wrote
        self._files: dict[FileId, _File] = {}
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queue: FetchQueue[_File] = FetchQueue()
        self._ahead = ReadAhead()
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._fetch_on, daemon=True) for _ in range(fetchers)]
        for thread in self._threads:
            thread.start()

    def request(self, request: LoadRequest) -> None:
        """Take up a request; its descriptor is closed when it is answered. Called from one thread."""
        with self._lock:
            try:
                file = self._open(request.descriptor)
            except (OSError, StateError, DamagedRanges) as error:
                self._log(f"{path_of(request.descriptor)}: {error}")
                self._end(_Waiter(request, 0.0), errno.EIO)
                return
            waiter = _Waiter(request, time.monotonic() + self._patience_s)
            if file is None:
                self._end(waiter, 0)
                return
            file.waiters.append(waiter)
            self._settle(file)
            if waiter in file.waiters:
                self._want(file, file.ranges.missing(request.offset, request.count), _urgency(request))
            if request.wish is Wish.ACCESS:
                self._load_ahead(file, request)
            self._forget_idle(file)

    def expire(self) -> float:
        """End requests that have waited too long; gives the seconds until the next one does."""
        with self._lock:
            now = time.monotonic()
            for file in list(self._files.values()):
                late = [waiter for waiter in file.waiters if waiter.deadline <= now]
                if late:
                    self._log(
                        f"{path_of(file.descriptor)}: nothing came for {self._patience_s:g} s; "
                        "readers get an input/output error"
                    )
                    self._fail(file, late, errno.EIO)
                    self._forget_idle(file)
            deadlines = [waiter.deadline for file in self._files.values() for waiter in file.waiters]
            return min([max(deadline - now, 0.0) for deadline in deadlines], default=3600.0)

    def close(self) -> None:
        """Fetch and write nothing any more, once what is being written is. Requests are left to who asked."""
        self._closed.set()
        self._queue.close()
        with self._idle:
            self._idle.wait_for(lambda: not any(file.is_filled for file in self._files.values()))

    def _open(self, descriptor: int) -> _File | None:
        """The file of a descriptor; None when all of it is here."""
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity in self._files:
            return self._files[identity]
        state = read_state(descriptor)
        if state is None or not state.is_name_only:
            return None
        ranges = read_ranges(descriptor, state.reference)
        filling.recover(descriptor, state, ranges, nobody_wrote=self._nobody_wrote)
        file = _File(identity, os.dup(descriptor), state, ranges)
        self._files[identity] = file
        return file

    def _want(self, file: _File, chunks: list[int], urgency: Urgency) -> None:
        for chunk in chunks:
            if chunk in file.under_way:
                self._queue.hurry(file.under_way[chunk], urgency)
        fresh = [chunk for chunk in chunks if chunk not in file.under_way]
        for first, count in runs(fresh, max(MOST_BYTES // file.ranges.chunk, 1)):
            fetch = Fetch(file, first, count, urgency)
            file.under_way.update(dict.fromkeys(range(first, first + count), fetch))
            self._queue.put(fetch)

    def _load_ahead(self, file: _File, request: LoadRequest) -> None:
        chunk = file.ranges.chunk
        first = request.offset // chunk
        last = (request.offset + max(request.count, 1) - 1) // chunk
        window = self._ahead.after(file.identity, first, last, MOST_AHEAD)
        if window == 0:
            return
        missing = file.ranges.missing((last + 1) * chunk, window * chunk)
        fresh = [each for each in missing if each not in file.under_way]
        # Many chunks by one request, and one flush: the next half while the first is being read.
        if 2 * len(fresh) >= window:
            self._want(file, fresh, Urgency.AHEAD)

    def _settle(self, file: _File) -> None:
        """Let go whoever has what he waits for; nobody while content is written."""
        if file.is_filled:
            return
        try:
            filling.note_cut(file.descriptor, file.state, file.ranges)
        except OSError as error:
            self._log(f"{path_of(file.descriptor)}: {error}")
            self._fail(file, list(file.waiters), errno.EIO)
            return
        if file.ranges.is_complete and not file.is_finished:
            self._finish(file)
        for waiter in list(file.waiters):
            if not file.ranges.missing(waiter.request.offset, waiter.request.count):
                file.waiters.remove(waiter)
                self._end(waiter, 0)

    def _finish(self, file: _File) -> None:
        """All is here, or what is not was cut off."""
        try:
            # Who frees the space of exported files marks them first: after this.
            self._complete(file.descriptor)
            filling.finish(file.descriptor, file.state)
            file.is_finished = True
        except OSError as error:
            self._log(f"{path_of(file.descriptor)}: {error}")

    def _fail(self, file: _File, waiters: list[_Waiter], error: int) -> None:
        for waiter in waiters:
            file.waiters.remove(waiter)
            self._end(waiter, error)

    def _end(self, waiter: _Waiter, error: int) -> None:
        os.close(waiter.request.descriptor)
        self._answer(LoadAnswer(waiter.request.number, error, waiter.loaded))

    def _forget_idle(self, file: _File) -> None:
        if file.waiters or file.under_way or file.is_filled:
            return
        if self._files.pop(file.identity, None) is not None:
            os.close(file.descriptor)

    def _fetch_on(self) -> None:
        while (fetch := self._queue.take()) is not None:
            error = 0
            try:
                if self._is_wanted(fetch):
                    error = self._fetch(fetch)
            except Exception as unforeseen:
                # A thread that ended would leave readers waiting.
                self._log(f"{path_of(fetch.file.descriptor)}: {type(unforeseen).__name__}: {unforeseen}")
                error = errno.EIO
            self._ended(fetch, error)

    def _is_wanted(self, fetch: Fetch[_File]) -> bool:
        """Whether anybody still waits for the file, or reads towards what is loaded ahead."""
        with self._lock:
            return fetch.urgency is Urgency.AHEAD or bool(fetch.file.waiters)

    def _fetch(self, fetch: Fetch[_File]) -> int:
        """Fetch and write; the errno of what went wrong."""
        file, pause_s = fetch.file, _FIRST_PAUSE_S
        with self._lock:
            offset, length = file.ranges.bytes_of(fetch.first, fetch.count)
        if length <= 0:
            return 0
        while True:
            try:
                reference = file.state.reference
                content = self._source_of(reference.bucket).read_range(reference, offset, length)
                break
            except StoreError as error:
                if error.fault not in _MAY_PASS or fetch.urgency is Urgency.AHEAD:
                    self._log(f"{path_of(file.descriptor)}: {error.problems[0]}")
                    return errno.EIO
                if self._closed.wait(pause_s) or not self._is_wanted(fetch):
                    return errno.EIO
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return self._write(fetch, content)

    def _write(self, fetch: Fetch[_File], content: bytes) -> int:
        file = fetch.file
        with file.filling:
            with self._lock:
                if self._closed.is_set():
                    return errno.EIO
                file.is_filled = True
            error = 0
            try:
                filling.fill(file.descriptor, file.state, file.ranges, fetch.first, fetch.count, content)
                if file.ranges.is_complete:
                    self._finish(file)
            except OSError as failed:
                self._log(f"{path_of(file.descriptor)}: {failed}")
                error = failed.errno if failed.errno in _TOLD else errno.EIO
            with self._lock:
                file.is_filled = False
                self._idle.notify_all()
                if not error:
                    self._note_progress(fetch, len(content))
                self._settle(file)
        return error

    def _note_progress(self, fetch: Fetch[_File], loaded: int) -> None:
        # Who waits for much, such as all of a file that he maps, is patient as long as it comes.
        offset, length = fetch.file.ranges.bytes_of(fetch.first, fetch.count)
        for waiter in fetch.file.waiters:
            if _overlaps(waiter.request, offset, length):
                waiter.loaded += loaded
                waiter.deadline = time.monotonic() + self._patience_s

    def _ended(self, fetch: Fetch[_File], error: int) -> None:
        file = fetch.file
        with self._lock:
            for chunk in range(fetch.first, fetch.first + fetch.count):
                file.under_way.pop(chunk, None)
            if error:
                offset, length = file.ranges.bytes_of(fetch.first, fetch.count)
                failed = [each for each in file.waiters if _overlaps(each.request, offset, length)]
                self._fail(file, failed, error)
            self._settle(file)
            for waiter in file.waiters:
                # What was given up while nobody waited may be waited for again.
                missing = file.ranges.missing(waiter.request.offset, waiter.request.count)
                self._want(file, missing, _urgency(waiter.request))
            self._forget_idle(file)


def _urgency(request: LoadRequest) -> Urgency:
    return Urgency.AWAITED if request.wish is Wish.ACCESS else Urgency.BACKGROUND


def _overlaps(request: LoadRequest, offset: int, length: int) -> bool:
    end = request.offset + request.count if request.count else 2**63
    return request.offset < offset + length and offset < end
