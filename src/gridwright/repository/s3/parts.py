"""Sends large objects in parts, by threads: each reads a little of the file, and sends that at once.

So a part takes one small buffer, where awscrt has all bytes of many parts in memory.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gridwright.repository.s3.faults import botocore_faults
from gridwright.repository.s3.plain import PlainConnection, PlainRequests, Unusual
from gridwright.repository.s3.signing import UNSIGNED
from gridwright.repository.s3.small_objects import FileFault, send_range
from gridwright.repository.s3.under_way import UnderWay, given_up
from gridwright.repository.store import Progress, StoreError, StoreFault, Upload, WriteCondition
from gridwright.repository.upload_journal import UploadJournal

PART_BYTES = 8 << 20
"""Bytes of a part of most objects: S3 takes 5 MiB to 5 GiB."""
_MOST_PARTS = 10_000
_MIB = 1 << 20
_THREADS = 16
_LEAVING_S = 0.6
"""How long who gives up waits for parts to be taken away: an order to stop is obeyed within a second."""


def part_bytes(size: int) -> int:
    """Bytes of each part but the last of an object of so many bytes: S3 takes 10,000 parts."""
    least = -(-size // _MOST_PARTS)
    return max(PART_BYTES, -(-least // _MIB) * _MIB)


@dataclass(slots=True)
class _Object:
    """One object on its way; threads share it."""

    key: str
    url: str
    upload: Upload
    metadata: Mapping[str, str]
    condition: WriteCondition
    progress: Progress | None
    step: int
    left: int
    """Parts that are not done with."""
    future: Future[Mapping[str, Any]] = field(default_factory=Future)
    upload_id: str = ""
    failure: BaseException | None = None
    etags: dict[int, str] = field(default_factory=dict)
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """CRC and length by the number of a part."""


class PartSending:
    """Sends objects to one bucket. Threads begin with the first object."""

    def __init__(self, client: Any, bucket: str, more: Mapping[str, str], requests: PlainRequests) -> None:  # noqa: ANN401
        """`client` is botocore's; `more` is sent with each request of it."""
        self._client = client
        self._bucket = bucket
        self._more = dict(more)
        self._requests = requests
        self._waiting: queue.SimpleQueue[tuple[_Object, int] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._under_way = UnderWay[Mapping[str, Any]]()
        self._in_parts = 0
        """Objects of which the store may have parts."""
        self._is_clear = threading.Event()
        self._is_clear.set()
        self._journal: UploadJournal | None = None

    def send(
        self,
        key: str,
        url: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition,
        progress: Progress | None,
    ) -> Future[Mapping[str, Any]]:
        """Make an object of an upload; the future has what botocore says of it.

        The future's exception is a StoreError, or one of the upload.
        """
        step = part_bytes(upload.size)
        count = -(-upload.size // step)
        wanted = _Object(key, url, upload, metadata, condition, progress, step, count)
        self._under_way.begin(wanted.future)
        self._waiting.put((wanted, 0))
        for _ in range(min(count, _THREADS - len(self._threads))):
            self._threads.append(threading.Thread(target=self._work, name="parts", daemon=True))
            self._threads[-1].start()
        return wanted.future

    def begin_uploads(self, journal: UploadJournal) -> None:
        """As `ObjectStore.begin_uploads`."""
        left = journal.left(self._bucket)
        for key, upload_id in left:
            try:
                self._abort(key, upload_id)
            except StoreError as error:
                if error.fault is not StoreFault.NOT_THERE:
                    raise
        journal.clear()
        self._journal = journal

    def close(self) -> None:
        """Give up what is under way, at once: nobody waits for a store that does not answer."""
        self._under_way.give_up()
        self._requests.break_off()
        self._is_clear.wait(_LEAVING_S)
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        connection = PlainConnection(self._requests)
        while (item := self._waiting.get()) is not None:
            wanted, number = item
            if number == 0:
                if not self._under_way.is_given_up:
                    self._begin(wanted)
                continue
            if wanted.failure is None and not self._under_way.is_given_up:
                try:
                    self._send_part(connection, wanted, number)
                except FileFault as error:
                    connection.close()
                    wanted.failure = error.__cause__
                except BaseException as error:
                    connection.close()
                    wanted.failure = error
            with self._lock:
                wanted.left -= 1
                is_last = wanted.left == 0
            if is_last:
                self._finish(wanted)
        connection.close()

    def _begin(self, wanted: _Object) -> None:
        self._count(1)
        try:
            with botocore_faults(wanted.url):
                begun = self._client.create_multipart_upload(
                    Bucket=self._bucket, Key=wanted.key, Metadata=dict(wanted.metadata), **self._more
                )
            wanted.upload_id = begun["UploadId"]
            if self._journal is not None:
                self._journal.begin(self._bucket, wanted.key, wanted.upload_id)
        except BaseException as error:
            self._under_way.failed(wanted.future, error)
            self._count(-1)
            return
        for number in range(1, wanted.left + 1):
            self._waiting.put((wanted, number))

    def _send_part(self, connection: PlainConnection, wanted: _Object, number: int) -> None:
        start = (number - 1) * wanted.step
        end = min(start + wanted.step, wanted.upload.size)
        try:
            etag, crc = self._plain_part(connection, wanted, number, start, end)
        except (Unusual, OSError, ValueError):
            connection.close()
            etag, crc = self._part_by_botocore(wanted, number, start, end)
        with self._lock:
            wanted.etags[number], wanted.sums[number] = etag, (crc, end - start)
        if wanted.progress is not None:
            wanted.progress(end - start)

    def _plain_part(
        self, connection: PlainConnection, wanted: _Object, number: int, start: int, end: int
    ) -> tuple[str, int]:
        query = f"partNumber={number}&uploadId={quote(wanted.upload_id, safe='~')}"
        length = {"content-length": str(end - start)}
        connection.send(connection.requests.head("PUT", wanted.key, query, length, UNSIGNED))
        crc = send_range(connection, wanted.upload, start, end)
        etag = connection.taken().get("etag")
        if not etag:
            raise Unusual
        return etag, crc

    def _part_by_botocore(self, wanted: _Object, number: int, start: int, end: int) -> tuple[str, int]:
        """Send a part that a plain request did not: botocore tries again, with all of it in memory."""
        from awscrt.checksums import crc64nvme

        if self._under_way.is_given_up:
            raise given_up()
        content = bytearray(end - start)
        wanted.upload.read_at(memoryview(content), start)
        with botocore_faults(wanted.url):
            sent = self._client.upload_part(
                Bucket=self._bucket, Key=wanted.key, UploadId=wanted.upload_id, PartNumber=number,
                Body=content, **self._more,
            )  # fmt: skip
        return sent["ETag"], crc64nvme(content, 0)

    def _finish(self, wanted: _Object) -> None:
        """Make the object of its parts, or leave nothing of them."""
        try:
            if wanted.failure is not None:
                raise wanted.failure
            if self._under_way.is_given_up:
                raise given_up()
            wanted.upload.check()
            wanted.upload.sent(_sum(wanted))
            made = self._completed(wanted)
        except BaseException as error:
            # What cannot be taken away now, the next command or the bucket's rule takes away.
            with suppress(StoreError):
                self._abort(wanted.key, wanted.upload_id)
                self._ended(wanted)
            self._under_way.failed(wanted.future, error)
        else:
            self._ended(wanted)
            self._under_way.done(wanted.future, made)
        self._count(-1)

    def _ended(self, wanted: _Object) -> None:
        if self._journal is not None:
            with suppress(OSError):
                self._journal.end(wanted.upload_id)

    def _count(self, more: int) -> None:
        with self._lock:
            self._in_parts += more
            if self._in_parts:
                self._is_clear.clear()
            else:
                self._is_clear.set()

    def _completed(self, wanted: _Object) -> Mapping[str, Any]:
        """Make the object of its parts, or find it made: who asks again after a lost answer has no upload."""
        try:
            return self._complete(wanted)
        except StoreError as error:
            if error.fault not in (StoreFault.NOT_THERE, StoreFault.UNREACHABLE):
                raise
            with suppress(StoreError):
                if (made := self._found(wanted)) is not None:
                    return made
            if error.fault is StoreFault.UNREACHABLE:
                raise
            said = "it has neither the parts nor the object; the next export sends it again"
            raise StoreError(StoreFault.UNREACHABLE, wanted.url, said) from error

    def _found(self, wanted: _Object) -> Mapping[str, Any] | None:
        """What the store says of the object, if it is the one that was made of these parts."""
        with botocore_faults(wanted.url):
            head: Mapping[str, Any] = self._client.head_object(
                Bucket=self._bucket, Key=wanted.key, ChecksumMode="ENABLED", **self._more
            )
        is_same = (
            head.get("ETag", "").strip('"') == _etag(wanted) and head["ContentLength"] == wanted.upload.size
        )
        return head if is_same else None

    def _complete(self, wanted: _Object) -> Mapping[str, Any]:
        condition: dict[str, str] = {}
        if wanted.condition.none_there:
            condition = {"IfNoneMatch": "*"}
        elif wanted.condition.etag:
            condition = {"IfMatch": f'"{wanted.condition.etag}"'}
        parts = [{"PartNumber": number, "ETag": wanted.etags[number]} for number in sorted(wanted.etags)]
        with botocore_faults(wanted.url):
            made: Mapping[str, Any] = self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=wanted.key, UploadId=wanted.upload_id,
                MultipartUpload={"Parts": parts}, **condition, **self._more,
            )  # fmt: skip
        return made

    def _abort(self, key: str, upload_id: str) -> None:
        with botocore_faults(f"s3://{self._bucket}/{key}"):
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload_id, **self._more
            )


def _etag(wanted: _Object) -> str | None:
    """The ETag of an object of these parts: the MD5 of theirs; None where a part's is no MD5."""
    try:
        digests = b"".join(bytes.fromhex(wanted.etags[number].strip('"')) for number in sorted(wanted.etags))
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(wanted.etags)}"


def _sum(wanted: _Object) -> int:
    from awscrt.checksums import combine_crc64nvme

    crc = 0
    for number in sorted(wanted.sums):
        crc = combine_crc64nvme(crc, *wanted.sums[number])
    return crc
