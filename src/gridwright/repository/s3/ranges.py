"""Brings objects by ranges: each is one request, read into one small buffer and written from there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gridwright.repository.crc64 import crc64_of_pieces
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.connection import BucketConnection
from gridwright.repository.s3.faults import botocore_faults
from gridwright.repository.s3.moved import Moved
from gridwright.repository.s3.plain import ContentFile, PlainConnection, StoreRequest
from gridwright.repository.s3.request_threads import RequestThreads
from gridwright.repository.s3.small_objects import fetch, fetch_by_botocore
from gridwright.repository.store import Progress

RANGE_BYTES = 16 << 20
"""Bytes of one request: so many that asking costs nothing beside them."""


@dataclass(slots=True)
class _Object:
    """One object on its way; threads share it."""

    reference: ObjectReference
    file: ContentFile
    progress: Progress | None
    left: int
    """Ranges that have not arrived."""
    future: Future[str | None] = field(default_factory=Future)
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """CRC and length by where a range begins."""


def range_count(size: int) -> int:
    """Requests that bring an object of so many bytes."""
    return max(1, -(-size // RANGE_BYTES))


class RangeFetching:
    """Brings objects of one bucket by threads that others may use, too."""

    def __init__(self, connection: BucketConnection, more: Mapping[str, str]) -> None:
        """`more` is sent with each request of botocore."""
        self._connection = connection
        self._more = dict(more)
        self._lock = threading.Lock()

    def fetch(
        self,
        threads: RequestThreads,
        reference: ObjectReference,
        url: str,
        descriptor: int,
        progress: Progress | None,
    ) -> Future[str | None]:
        """Write the very object that is referred to into an open file; the future has its CRC-64/NVME.

        The future's exception is a StoreError, or an OSError of the file.
        """
        count = range_count(reference.size)
        wanted = _Object(reference, ContentFile(descriptor, reference.size), progress, count)
        threads.under_way.begin(wanted.future)
        for place in range(count):
            start = place * RANGE_BYTES
            span = start, min(start + RANGE_BYTES, reference.size)

            def work(connection: PlainConnection, span: tuple[int, int] = span) -> None:
                error: BaseException | None = None
                if not wanted.future.done():
                    try:
                        self._bring(threads, connection, wanted, span, url)
                    except BaseException as found:
                        error = found
                self._ended(threads, wanted, error)

            threads.put(work)
        return wanted.future

    def _bring(
        self,
        threads: RequestThreads,
        connection: PlainConnection,
        wanted: _Object,
        span: tuple[int, int],
        url: str,
    ) -> None:
        reference, moved = wanted.reference, Moved(wanted.progress)
        version = reference.version_id
        headers = {"if-match": f'"{reference.etag}"'}
        more: dict[str, Any] = {"IfMatch": headers["if-match"], **self._more}
        if version:
            more["VersionId"] = version
        if span != (0, reference.size):
            more["Range"] = headers["range"] = f"bytes={span[0]}-{span[1] - 1}"
        query = f"versionId={quote(version, safe='~')}" if version else ""
        request = StoreRequest("GET", "GetObject", reference.key, query, headers)

        def by_botocore() -> int:
            with botocore_faults(url):
                answer = self._connection.client.get_object(
                    Bucket=self._connection.bucket, Key=reference.key, **more
                )
            # botocore's own body hides errors of the connection; what it wraps does not.
            body = answer["Body"]._raw_stream
            try:
                return fetch_by_botocore(body, answer, reference, span, wanted.file, moved, url)
            finally:
                body.close()

        crc = threads.attempt(
            connection,
            lambda each: fetch(each, request, reference, span, wanted.file, moved),
            by_botocore,
        )
        with self._lock:
            wanted.sums[span[0]] = (crc, span[1] - span[0])

    def _ended(self, threads: RequestThreads, wanted: _Object, error: BaseException | None) -> None:
        with self._lock:
            wanted.left -= 1
            is_last = wanted.left == 0
        if is_last:
            wanted.file.close()
        if error is not None:
            threads.under_way.failed(wanted.future, error)
        elif is_last and not wanted.future.done():
            threads.under_way.done(wanted.future, f"{crc64_of_pieces(wanted.sums):016x}")
