"""Makes large objects of parts: a thread for each reads a little of the file, and sends that at once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.connection import BucketConnection
from gridwright.repository.s3.faults import botocore_faults, missing
from gridwright.repository.s3.plain import FileFault, PlainConnection, StoreRequest
from gridwright.repository.s3.request_threads import RequestThreads
from gridwright.repository.s3.small_objects import (
    CRC64_SUMS,
    Moved,
    UploadBody,
    in_base64,
    parameters_of,
    send,
    sum_parameters,
    unquoted,
)
from gridwright.repository.s3.tries import Tries, given_up
from gridwright.repository.state_directory import UploadJournal
from gridwright.repository.store import (
    Progress,
    SentSum,
    StoreError,
    StoreFault,
    Upload,
    WriteCondition,
    crc64_of_pieces,
)
from gridwright.units import format_bytes

PART_BYTES = 8 << 20
"""Bytes of a part of most objects: S3 takes 5 MiB to 5 GiB."""
_MOST_PARTS, _MOST_PART_BYTES = 10_000, 5 << 30
LARGEST_OBJECT = _MOST_PARTS * _MOST_PART_BYTES
"""48.8 TiB (Amazon S3 User Guide, "Amazon S3 multipart upload limits"); other stores take no more."""
_MIB = 1 << 20
_WHOLE = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"}
MOST_TO_COPY = 5 * 10**9
"""Bytes of the largest object that one request copies: 5 GB."""
_COPIED_BYTES = 512 << 20
"""Bytes of a part that the store copies, of all objects but those above 4.9 TiB."""
_ATTEMPTS = 3
"""Uploads of one object whose ends may meet another request for the key."""
_LEAVING_S = 0.6
"""How long who gives up waits for parts to be taken away: an order to stop is obeyed within a second."""
_MD5 = re.compile(r"[0-9a-f]{32}", re.ASCII)


class _Conflict(Exception):
    """Another request for the key came in between; its cause says so.

    S3 wants the whole upload anew then (Amazon S3 API Reference, CompleteMultipartUpload: If-None-Match).
    """


def part_bytes(size: int) -> int:
    """Bytes of each part but the last of an object of so many bytes: S3 takes 10,000 parts."""
    least = -(-size // _MOST_PARTS)
    return max(PART_BYTES, -(-least // _MIB) * _MIB)


def why_too_large(size: int) -> str | None:
    """Why no object can have so many bytes; None where one can."""
    if size <= LARGEST_OBJECT:
        return None
    most = format_bytes(LARGEST_OBJECT)
    return f"no object can be so large: it has {format_bytes(size)}, and {most} is the most"


def part_count(size: int) -> int:
    """Parts of an upload of so many bytes; one of none is one part, too."""
    return -(-size // part_bytes(size)) or 1


def _copied_part_bytes(size: int) -> int:
    return max(part_bytes(size), _COPIED_BYTES)


def copied_part_count(size: int) -> int:
    """Parts of an object of so many bytes that the store copies."""
    return -(-size // _copied_part_bytes(size)) or 1


@dataclass(slots=True)
class _Object:
    """One object on its way; threads share it."""

    key: str
    url: str
    content: Upload | ObjectReference
    """What it is made of: an upload, or another object of the bucket."""
    metadata: Mapping[str, str]
    condition: WriteCondition
    progress: Progress | None
    looks: bool
    sent_sum: SentSum
    step: int
    """Bytes of each part but the last."""
    left: int = 0
    """Parts that are not done with."""
    attempt: int = 1
    future: Future[Mapping[str, str]] = field(default_factory=Future)
    upload_id: str = ""
    failure: BaseException | None = None
    etags: dict[int, str] = field(default_factory=dict)
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """CRC and length by the number of a part."""

    @property
    def count(self) -> int:
        """Parts in all."""
        return -(-self.content.size // self.step) or 1

    @property
    def made_etag(self) -> str | None:
        """The ETag that S3 gives to an object of these parts; None where they are not known by their MD5."""
        found = [unquoted(self.etags[number]) for number in sorted(self.etags)]
        if not all(_MD5.fullmatch(each) for each in found):
            return None
        joined = b"".join(map(bytes.fromhex, found))
        return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(found)}"


class PartSending:
    """Makes objects of one bucket of parts, by threads that others may use, too."""

    def __init__(
        self, connection: BucketConnection, more: Mapping[str, str], threads: RequestThreads, tries: Tries
    ) -> None:
        """`more` is sent with each request of botocore."""
        self._connection = connection
        self._more = {"Bucket": connection.bucket, **more}
        self._threads = threads
        self._tries = tries
        self._lock = threading.Lock()
        self._in_parts = 0
        """Objects of which the store may have parts."""
        self._is_clear = threading.Event()
        self._is_clear.set()
        self._journal: UploadJournal | None = None
        self._place = f"{connection.store}/{connection.bucket}"

    def begin_uploads(self, journal: UploadJournal) -> None:
        """As `ObjectStore.begin_uploads`."""
        for key, upload_id in journal.left(self._place):
            try:
                self._abort(key, upload_id)
            except StoreError as error:
                if error.fault is not StoreFault.NOT_THERE:
                    raise
            journal.end(upload_id)
        journal.shorten()
        self._journal = journal

    def make(
        self,
        key: str,
        url: str,
        content: Upload | ObjectReference,
        metadata: Mapping[str, str],
        condition: WriteCondition,
        progress: Progress | None = None,
        *,
        looks: bool = True,
        sent_sum: SentSum = SentSum.NONE,
    ) -> Future[Mapping[str, str]]:
        """Make an object of an upload, or of another object; the future has what headers would say of it.

        Some stores ignore the condition when parts become an object: with `looks`, the object is looked at
        just before. The future's exception is a StoreError, or one of the upload.
        """
        is_copied = isinstance(content, ObjectReference)
        step = (_copied_part_bytes if is_copied else part_bytes)(content.size)
        wanted = _Object(key, url, content, metadata, condition, progress, looks, sent_sum, step)
        self._threads.under_way.begin(wanted.future)
        self._threads.put(lambda _: self._begin(wanted))
        return wanted.future

    def wait(self) -> None:
        """Wait a moment until parts of what was given up are taken away."""
        self._is_clear.wait(_LEAVING_S)

    def _begin(self, wanted: _Object) -> None:
        self._count(1)
        try:
            if self._threads.under_way.is_given_up:
                raise given_up()
            more = _WHOLE if wanted.sent_sum in CRC64_SUMS else {}
            begun = self._ask(wanted, "create_multipart_upload", Metadata=dict(wanted.metadata), **more)
            wanted.upload_id = begun.get("UploadId", "")
            if not wanted.upload_id:
                raise missing(wanted.url, "CreateMultipartUpload", "UploadId")
            if self._journal is not None:
                self._journal.begin(self._place, wanted.key, wanted.upload_id)
        except BaseException as error:
            self._threads.under_way.failed(wanted.future, error)
            self._count(-1)
            return
        wanted.left = wanted.count
        for number in range(1, wanted.count + 1):
            self._threads.put(lambda connection, number=number: self._part(connection, wanted, number))  # type: ignore[misc]

    def _part(self, connection: PlainConnection, wanted: _Object, number: int) -> None:
        if wanted.failure is None and not self._threads.under_way.is_given_up:
            span = (number - 1) * wanted.step, min(number * wanted.step, wanted.content.size)
            try:
                if isinstance(wanted.content, ObjectReference):
                    etag, crc = self._copied(wanted, wanted.content, number, span), 0
                else:
                    etag, crc = self._sent(connection, wanted, wanted.content, number, span)
                with self._lock:
                    wanted.etags[number], wanted.sums[number] = etag, (crc, span[1] - span[0])
            except BaseException as error:
                connection.close()
                wanted.failure = error
        with self._lock:
            wanted.left -= 1
            is_last = wanted.left == 0
        if is_last:
            self._finish(wanted)

    def _sent(
        self,
        connection: PlainConnection,
        wanted: _Object,
        upload: Upload,
        number: int,
        span: tuple[int, int],
    ) -> tuple[str, int]:
        moved = Moved(wanted.progress)
        query = f"partNumber={number}&uploadId={quote(wanted.upload_id, safe='~')}"
        request = StoreRequest("PUT", "UploadPart", wanted.key, query)

        def plainly(each: PlainConnection) -> tuple[str, int]:
            headers, crc = send(each, request, upload, span, moved, wanted.sent_sum)
            return headers["etag"], crc

        def by_botocore() -> tuple[str, int]:
            body, more = UploadBody(upload, span), sum_parameters(upload, span, wanted.sent_sum)
            try:
                with botocore_faults(wanted.url):
                    made = self._connection.client.upload_part(
                        Key=wanted.key, UploadId=wanted.upload_id, PartNumber=number, Body=body,
                        **more, **self._more,
                    )  # fmt: skip
            except Exception as error:
                if body.failure is not None:
                    raise FileFault from body.failure
                raise error
            moved.to(span[1] - span[0])
            if not made.get("ETag"):
                raise missing(wanted.url, "UploadPart", "ETag")
            return made["ETag"], body.crc

        return self._threads.attempt(connection, plainly, by_botocore)

    def _copied(self, wanted: _Object, source: ObjectReference, number: int, span: tuple[int, int]) -> str:
        where = {"Bucket": self._connection.bucket, "Key": source.key}
        if source.version_id:
            where["VersionId"] = source.version_id
        # Ranges are for objects of several parts: S3 refuses one of less than 5 MB.
        more = {"CopySourceRange": f"bytes={span[0]}-{span[1] - 1}"} if wanted.count > 1 else {}
        made = self._ask(
            wanted, "upload_part_copy", UploadId=wanted.upload_id, PartNumber=number, CopySource=where,
            CopySourceIfMatch=f'"{source.etag}"', **more,
        )  # fmt: skip
        if not (etag := made.get("CopyPartResult", {}).get("ETag")):
            raise missing(wanted.url, "UploadPartCopy", "ETag")
        return str(etag)

    def _finish(self, wanted: _Object) -> None:
        """Make the object of its parts, or leave nothing of them."""
        try:
            if wanted.failure is not None:
                raise wanted.failure
            if self._threads.under_way.is_given_up:
                raise given_up()
            if not isinstance(wanted.content, ObjectReference):
                wanted.content.check()
                wanted.content.sent(crc64_of_pieces(wanted.sums))
            made = self._complete(wanted)
        except BaseException as error:
            # What cannot be taken away now, the next command or the bucket's rule takes away.
            with suppress(StoreError):
                self._abort(wanted.key, wanted.upload_id)
                self._ended(wanted)
            if not isinstance(error, _Conflict):
                self._threads.under_way.failed(wanted.future, error)
            elif wanted.attempt < _ATTEMPTS and not self._tries.waits(wanted.attempt):
                self._anew(wanted)
            else:
                self._threads.under_way.failed(wanted.future, error.__cause__)
        else:
            self._ended(wanted)
            self._threads.under_way.done(wanted.future, made)
        self._count(-1)

    def _anew(self, wanted: _Object) -> None:
        """Send all parts once more: an upload that met another request is of no use any more."""
        wanted.attempt += 1
        wanted.progress = None  # Its bytes were counted.
        wanted.etags.clear()
        wanted.sums.clear()
        self._threads.put(lambda _: self._begin(wanted))

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

    def _complete(self, wanted: _Object) -> Mapping[str, str]:
        more: dict[str, Any] = parameters_of(wanted.condition)
        if more and wanted.looks:
            self._look(wanted)
        parts: list[dict[str, Any]] = [
            {"PartNumber": number, "ETag": wanted.etags[number]} for number in sorted(wanted.etags)
        ]
        if wanted.sent_sum in CRC64_SUMS:
            for each in parts:
                each["ChecksumCRC64NVME"] = in_base64(wanted.sums[each["PartNumber"]][0])
            more |= {
                "ChecksumCRC64NVME": in_base64(crc64_of_pieces(wanted.sums)),
                "ChecksumType": "FULL_OBJECT",
            }
        tries = 0

        def ask() -> Mapping[str, Any]:
            nonlocal tries
            tries += 1
            try:
                found = self._ask_once(
                    wanted, "complete_multipart_upload", UploadId=wanted.upload_id,
                    MultipartUpload={"Parts": parts}, **more,
                )  # fmt: skip
            except StoreError as error:
                if error.fault is StoreFault.CONFLICT:
                    raise _Conflict from error
                raise
            if not found.get("ETag"):
                # S3 says success before it has done it: what follows may be cut off.
                said = "its answer has no ETag"
                raise StoreError(StoreFault.UNREACHABLE, wanted.url, said, "CompleteMultipartUpload")
            return found

        try:
            made = self._tries.of(ask)
        except StoreError as error:
            # A reply that was lost: the object is made, and there is no upload any more to make it of.
            if error.fault not in (StoreFault.NOT_THERE, StoreFault.UNREACHABLE, StoreFault.CHANGED):
                raise
            if tries == 1 and error.fault is StoreFault.CHANGED:
                raise
            found = self._matching_head(wanted)
            if found is None and error.fault is StoreFault.NOT_THERE:
                said = "it has neither the parts nor the object; the next export sends it again"
                raise StoreError(StoreFault.UNREACHABLE, wanted.url, said) from error
            if found is None:
                raise
            made = found
        return answered(made)

    def _matching_head(self, wanted: _Object) -> Mapping[str, Any] | None:
        """What the store says of the object, if it is the one that was made of these parts."""
        with suppress(StoreError):
            head = self._ask(wanted, "head_object", ChecksumMode="ENABLED")
            is_same = unquoted(head.get("ETag", "")) == wanted.made_etag
            return head if is_same and head["ContentLength"] == wanted.content.size else None
        return None

    def _look(self, wanted: _Object) -> None:
        """Raise where the condition does not hold."""
        try:
            found = unquoted(self._ask(wanted, "head_object").get("ETag", ""))
        except StoreError as error:
            if error.fault is StoreFault.FORBIDDEN or (
                wanted.condition.none_there and error.fault is StoreFault.NOT_THERE
            ):
                return
            raise
        if wanted.condition.none_there or found != wanted.condition.etag:
            said = f"its ETag is {found}"
            raise StoreError(StoreFault.CHANGED, wanted.url, said, "CompleteMultipartUpload")

    def _abort(self, key: str, upload_id: str) -> None:
        with botocore_faults(f"s3://{self._connection.bucket}/{key}"):
            self._connection.client.abort_multipart_upload(Key=key, UploadId=upload_id, **self._more)

    def _ask(self, wanted: _Object, operation: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401
        return self._tries.of(lambda: self._ask_once(wanted, operation, **more))

    def _ask_once(self, wanted: _Object, operation: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401
        with botocore_faults(wanted.url):
            found: Mapping[str, Any] = getattr(self._connection.client, operation)(
                Key=wanted.key, **self._more, **more
            )
        return found


def answered(answer: Mapping[str, Any]) -> dict[str, str]:
    """What botocore's answer says of the object that was made, in headers and body, as headers have it."""
    names = {
        "etag": "ETag", "x-amz-version-id": "VersionId", "x-amz-checksum-type": "ChecksumType",
        "x-amz-checksum-crc64nvme": "ChecksumCRC64NVME",
    }  # fmt: skip
    said = {**answer, **answer.get("CopyObjectResult", {})}
    found = {name: said[field] for name, field in names.items() if field in said}
    return {**answer["ResponseMetadata"]["HTTPHeaders"], **found}
