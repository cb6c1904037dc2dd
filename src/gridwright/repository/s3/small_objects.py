"""Brings and sends small objects, each by one plain request of a thread, or else by awscrt."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.plain import BUFFER_BYTES, PlainConnection, PlainRequests, Unusual
from gridwright.repository.s3.signing import UNSIGNED
from gridwright.repository.s3.under_way import UnderWay, given_up
from gridwright.repository.store import Progress, Upload

_FEWEST, _MOST = 8, 64
_SLOW_S = 0.02
"""Each request that takes longer lets one thread more begin: a store that is near keeps a few threads busy,
and many of them would only take turns; one that is far has to be asked for many objects at once.
"""
_MOST_UNUSUAL, _PAUSE_S = 16, 30.0
"""After so many answers in a row that were not the plain one, nobody asks plainly for so long."""
_Made = TypeVar("_Made")


class FileFault(Exception):
    """The file could not be written or read, or is not to be sent; its cause says why."""


@dataclass(slots=True)
class _Wanted(Generic[_Made]):
    act: Callable[[PlainConnection], _Made]
    otherwise: Callable[[], Future[_Made]]
    """The same in another way."""
    progress: Callable[[], None]
    let_go: Callable[[], None]
    """Called when nobody works on it any more, which may be after the future has ended."""
    future: Future[_Made] = field(default_factory=Future)


class SmallObjects:
    """Moves small objects of one bucket, in threads that begin with the first of them."""

    def __init__(self, requests: PlainRequests) -> None:
        self._requests = requests
        self._waiting: queue.SimpleQueue[_Wanted[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._most = _FEWEST
        self._under_way = UnderWay[Any]()
        self._unusual = 0
        self._not_before = 0.0
        """When a plain request may be made again, by the monotonic clock."""

    def fetch(
        self,
        reference: ObjectReference,
        descriptor: int,
        progress: Progress | None,
        otherwise: Callable[[int], Future[str | None]],
    ) -> Future[str | None]:
        """Write the very object that is referred to into an open, empty file; the future has its CRC-64/NVME.

        `otherwise` is given a descriptor. The future's exception is an OSError of the file, or what it has.
        """
        # Of its own, so that a thread that is late writes into no other file.
        own = os.dup(descriptor)
        return self._begin(
            lambda connection: _fetch(connection, reference, own),
            lambda: otherwise(own),
            _told(progress, reference.size),
            lambda: os.close(own),
        )

    def send(
        self,
        key: str,
        upload: Upload,
        headers: Mapping[str, str],
        progress: Progress | None,
        otherwise: Callable[[], Future[Mapping[str, str]]],
    ) -> Future[Mapping[str, str]]:
        """Make an object of an upload; the future has the headers of the answer.

        The future's exception is one of the upload, or what `otherwise` has.
        """
        return self._begin(
            lambda connection: _send(connection, key, upload, headers),
            otherwise,
            _told(progress, upload.size),
        )

    def close(self) -> None:
        """Give up what is under way, at once: nobody waits for a store that does not answer."""
        self._under_way.give_up()
        self._requests.break_off()
        for _ in self._threads:
            self._waiting.put(None)

    def _begin(
        self,
        act: Callable[[PlainConnection], _Made],
        otherwise: Callable[[], Future[_Made]],
        progress: Callable[[], None],
        let_go: Callable[[], None] = lambda: None,
    ) -> Future[_Made]:
        wanted = _Wanted(act, otherwise, progress, let_go)
        self._under_way.begin(wanted.future)
        self._waiting.put(wanted)
        if len(self._threads) < min(self._most, len(self._under_way)):
            self._threads.append(threading.Thread(target=self._work, name="small objects", daemon=True))
            self._threads[-1].start()
        return wanted.future

    def _work(self) -> None:
        connection = PlainConnection(self._requests)
        while (wanted := self._waiting.get()) is not None:
            if self._under_way.is_given_up or not self._asked_plainly(connection, wanted):
                self._do_otherwise(wanted)
            else:
                wanted.let_go()
            # What it holds, such as the content of a file, goes before the next one comes.
            del wanted
        connection.close()

    def _asked_plainly(self, connection: PlainConnection, wanted: _Wanted[Any]) -> bool:
        """Do it by a plain request; False where that has to be done otherwise."""
        began = time.monotonic()
        if began < self._not_before:
            return False
        try:
            made = _tried(connection, wanted.act)
        except FileFault as error:
            connection.close()
            self._under_way.failed(wanted.future, error.__cause__)
        except (Unusual, OSError, ValueError):
            connection.close()
            self._unusual += 1
            if self._unusual % _MOST_UNUSUAL == 0:
                self._not_before = time.monotonic() + _PAUSE_S
            return False
        except BaseException as error:
            connection.close()
            self._under_way.failed(wanted.future, error)
        else:
            self._unusual = 0
            wanted.progress()
            self._under_way.done(wanted.future, made)
            if time.monotonic() - began > _SLOW_S:
                self._most = min(self._most + 1, _MOST)
        return True

    def _do_otherwise(self, wanted: _Wanted[Any]) -> None:
        def ended(done: Future[Any]) -> None:
            wanted.let_go()
            if (error := done.exception()) is not None:
                self._under_way.failed(wanted.future, error)
            else:
                self._under_way.done(wanted.future, done.result())

        try:
            if self._under_way.is_given_up:
                raise given_up()
            future = wanted.otherwise()
        except BaseException as error:
            wanted.let_go()
            self._under_way.failed(wanted.future, error)
        else:
            future.add_done_callback(ended)


def _tried(connection: PlainConnection, act: Callable[[PlainConnection], _Made]) -> _Made:
    if connection.is_kept:
        # The store may have ended a connection that waited; a new one tells.
        with suppress(Unusual, OSError):
            return act(connection)
        connection.close()
    return act(connection)


def _fetch(connection: PlainConnection, reference: ObjectReference, descriptor: int) -> str:
    from awscrt.checksums import crc64nvme

    version = reference.version_id
    query = f"versionId={quote(version, safe='')}" if version else ""
    wanted = {"if-match": f'"{reference.etag}"'}
    connection.send(connection.requests.head("GET", reference.key, query, wanted))
    headers, start, filled = connection.answer()
    if (
        int(headers.get("content-length", "-1")) != reference.size
        or headers.get("etag", "").strip('"') != reference.etag
        or "transfer-encoding" in headers
        or "content-encoding" in headers
        or filled - start > reference.size
    ):
        raise Unusual
    left, offset, crc = reference.size, 0, 0
    while True:
        while filled - start < left and filled < BUFFER_BYTES:
            filled += connection.receive(filled, min(start + left, BUFFER_BYTES))
        piece = connection.view[start:filled]
        crc = crc64nvme(piece, crc)
        _write(descriptor, piece, offset)
        offset, left = offset + len(piece), left - len(piece)
        if not left:
            break
        start = filled = 0
    connection.done()
    return f"{crc:016x}"


def _send(
    connection: PlainConnection, key: str, upload: Upload, headers: Mapping[str, str]
) -> Mapping[str, str]:
    length = {"content-length": str(upload.size)}
    connection.send(connection.requests.head("PUT", key, "", {**headers, **length}, UNSIGNED))
    crc = send_range(connection, upload, 0, upload.size)
    answer = connection.taken()
    if not answer.get("etag"):
        raise Unusual
    upload.sent(crc)
    return answer


def send_range(connection: PlainConnection, upload: Upload, start: int, end: int) -> int:
    """Send a range of an upload; its CRC-64/NVME. Nothing has changed the file before the last byte leaves.

    Raises OSError of the connection, and FileFault, of which the cause is the upload's exception.
    """
    from awscrt.checksums import crc64nvme

    at, crc = start, 0
    while at < end:
        piece = connection.view[: min(BUFFER_BYTES, end - at)]
        try:
            upload.read_at(piece, at)
            at += len(piece)
            if at == end:
                upload.check()
        except Exception as error:
            raise FileFault from error
        crc = crc64nvme(piece, crc)
        connection.send(piece)
    return crc


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    try:
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written
    except OSError as error:
        raise FileFault from error


def _told(progress: Progress | None, size: int) -> Callable[[], None]:
    return (lambda: progress(size)) if progress is not None else (lambda: None)
