"""Brings large objects by ranges, in threads: each reads a connection into one small buffer and writes that.

For contents of many megabytes this takes half of the CPU and a fifth of the memory of awscrt, which has a
buffer for each part and one thread that writes all of them (`bench/repository.py`; docs/performance.md).
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.faults import botocore_faults
from gridwright.repository.s3.under_way import UnderWay, given_up
from gridwright.repository.store import Progress, StoreError, StoreFault

RANGE_BYTES = 32 << 20
"""Bytes of one request: so many that asking costs nothing beside them."""
_THREADS = 16
_BUFFER_BYTES = 256 << 10
"""Bytes that are read at once: they stay in the cache of a core until they are written."""
_TRIES = 5
_LONGEST_PAUSE_S = 20.0


@dataclass(slots=True)
class _Object:
    """One object on its way; threads share it."""

    reference: ObjectReference
    url: str
    descriptor: int
    """Of its own, so that a thread that is late writes into no other file."""
    progress: Progress | None
    left: int
    """Ranges that have not arrived."""
    future: Future[str | None] = field(default_factory=Future)
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """CRC and length by where a range begins."""


class RangeFetching:
    """Brings objects of one bucket. Threads begin with the first object."""

    def __init__(self, client: Any, bucket: str, more: Mapping[str, str], pause_ms: int) -> None:  # noqa: ANN401
        """`client` is boto3's; `more` is sent with each request."""
        self._client = client
        self._bucket = bucket
        self._more = dict(more)
        self._pause_s = pause_ms / 1000
        self._waiting: queue.SimpleQueue[tuple[_Object, int] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._objects = UnderWay[str | None]()
        self._bodies: set[Any] = set()
        self._closed = threading.Event()

    def fetch(
        self, reference: ObjectReference, url: str, descriptor: int, progress: Progress | None
    ) -> Future[str | None]:
        """Write the very object that is referred to into an open file; the future has its CRC-64/NVME.

        The future's exception is a StoreError, or an OSError of the file.
        """
        starts = range(0, reference.size, RANGE_BYTES)
        wanted = _Object(reference, url, os.dup(descriptor), progress, len(starts))
        self._objects.begin(wanted.future)
        for start in starts:
            self._waiting.put((wanted, start))
            if len(self._threads) < _THREADS:
                self._threads.append(threading.Thread(target=self._work, name="ranges", daemon=True))
                self._threads[-1].start()
        return wanted.future

    def close(self) -> None:
        """Give up what is under way, at once: nobody waits for a store that does not answer."""
        self._closed.set()
        with self._lock:
            bodies = list(self._bodies)
        for body in bodies:
            with suppress(Exception):
                body.shutdown()
        self._objects.give_up()
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            wanted, start = item
            error: BaseException | None = None
            if not wanted.future.done():
                try:
                    self._bring(wanted, start)
                except Exception as found:
                    error = found
            self._ended(wanted, error)

    def _ended(self, wanted: _Object, error: BaseException | None) -> None:
        with self._lock:
            wanted.left -= 1
            is_last = wanted.left == 0
        if error is not None:
            self._objects.failed(wanted.future, error)
        if is_last:
            os.close(wanted.descriptor)
            if not wanted.future.done():
                self._objects.done(wanted.future, _sum(wanted))

    def _bring(self, wanted: _Object, start: int) -> None:
        """One range, from where it broke off where a connection does so."""
        from awscrt.checksums import crc64nvme

        end = min(start + RANGE_BYTES, wanted.reference.size)
        buffer = memoryview(bytearray(min(_BUFFER_BYTES, end - start)))
        at, crc, tries = start, 0, 0
        while at < end:
            before = at
            body = self._ask(wanted, at, end)
            try:
                while at < end:
                    got = _read(body, buffer[: end - at], wanted.url)
                    self._refuse_closed()
                    crc = crc64nvme(buffer[:got], crc)
                    _write(wanted.descriptor, buffer[:got], at)
                    at += got
                    if wanted.progress is not None:
                        wanted.progress(got)
            except StoreError:
                tries = 0 if at > before else tries + 1
                if tries >= _TRIES or self._closed.wait(min(self._pause_s * 2**tries, _LONGEST_PAUSE_S)):
                    raise
            finally:
                self._done_with(body, is_whole=at == end)
        with self._lock:
            wanted.sums[start] = (crc, end - start)

    def _ask(self, wanted: _Object, at: int, end: int) -> Any:  # noqa: ANN401 - urllib3's response
        """The body of a range of the very object. botocore tries again what has no answer."""
        reference = wanted.reference
        version = {"VersionId": reference.version_id} if reference.version_id else {}
        with botocore_faults(wanted.url):
            answer = self._client.get_object(
                Bucket=self._bucket, Key=reference.key, Range=f"bytes={at}-{end - 1}",
                IfMatch=f'"{reference.etag}"', **version, **self._more,
            )  # fmt: skip
        # botocore's own body cannot be shut down from another thread; what it wraps can.
        body = answer["Body"]._raw_stream
        with self._lock:
            self._bodies.add(body)
        etag = answer["ETag"].strip('"')
        place = answer.get("ContentRange", "")
        if etag != reference.etag:
            self._done_with(body, is_whole=False)
            said = f"its ETag is {etag or 'missing'}, not {reference.etag}"
            raise StoreError(StoreFault.CHANGED, wanted.url, said)
        if place != f"bytes {at}-{end - 1}/{reference.size}":
            self._done_with(body, is_whole=False)
            raise StoreError(
                StoreFault.DAMAGED, wanted.url, f"it gave {place or 'no range'} for bytes {at}-{end - 1}"
            )
        return body

    def _done_with(self, body: Any, *, is_whole: bool) -> None:  # noqa: ANN401
        with self._lock:
            self._bodies.discard(body)
        if is_whole:
            body.release_conn()
        else:
            body.close()

    def _refuse_closed(self) -> None:
        if self._closed.is_set():
            raise given_up()


def _read(body: Any, buffer: memoryview, url: str) -> int:  # noqa: ANN401
    from urllib3.exceptions import HTTPError

    try:
        got = body.readinto(buffer)
    except (HTTPError, OSError) as error:
        raise StoreError(StoreFault.UNREACHABLE, url, str(error)) from error
    if not got:
        raise StoreError(StoreFault.DAMAGED, url, f"it gave {len(buffer)} bytes less than it should")
    return int(got)


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _sum(whole: _Object) -> str:
    from awscrt.checksums import combine_crc64nvme

    crc = 0
    for start in sorted(whole.sums):
        crc = combine_crc64nvme(crc, *whole.sums[start])
    return f"{crc:016x}"
