"""One bucket of S3, or of a store that speaks its protocol."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

from gridwright.repository.pace import Pace
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.connection import BucketConnection
from gridwright.repository.s3.faults import botocore_faults
from gridwright.repository.s3.listing import page_query, read_page
from gridwright.repository.s3.parts import PART_BYTES, PartSending, part_bytes
from gridwright.repository.s3.plain import PlainRequests
from gridwright.repository.s3.ranges import RANGE_BYTES, RangeFetching
from gridwright.repository.s3.small_objects import SmallObjects
from gridwright.repository.s3.transfers import Headers, Response, Transfers, metadata_headers
from gridwright.repository.store import (
    ANY,
    ObjectEntry,
    ObjectHead,
    Progress,
    RequestCount,
    StoreError,
    StoreFault,
    Upload,
    WriteCondition,
    WrittenObject,
)
from gridwright.repository.upload_journal import UploadJournal

MOST_TO_COPY = 5 * 10**9
"""Bytes of the largest object that one request copies: 5 GB."""
_PARTS = re.compile(r"-([0-9]{1,5})$", re.ASCII)
_MD5 = re.compile(r"[0-9a-f]{32}(?:-[0-9]{1,5})?", re.ASCII)
_LATE_NS = 10**9
"""Servers make the Date of their answers once a second, so that it may be earlier than that of the object."""
_ANSWER_S = 600.0
"""How long a small request may take with all its tries; awscrt ends a silent connection much sooner."""
_Made = TypeVar("_Made")
_Found = TypeVar("_Found")


class S3Store:
    """The `ObjectStore` of one bucket."""

    def __init__(
        self, connection: BucketConnection, *, pace: Pace | None = None, pause_ms: int = 200
    ) -> None:
        self._connection = connection
        self._client = connection.client
        self._transfers = Transfers(connection, pause_ms=pause_ms)
        self._ranges = RangeFetching(self._client, connection.bucket, self._payer(), pause_ms)
        plain = PlainRequests(connection)
        self._small = SmallObjects(plain)
        self._parts = PartSending(self._client, connection.bucket, self._payer(), plain)
        self._pace = pace or Pace(None)
        self._requests = RequestCount()

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self._connection.bucket

    @property
    def place(self) -> str:
        """Which store it is."""
        return self._connection.store

    @property
    def requests(self) -> RequestCount:
        """Requests so far."""
        return self._requests

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectEntry]:
        """All objects whose keys begin so; the first page is asked for at once."""
        return self._entries(prefix, self._ask_page(page_query(prefix, start_after=start_after)))

    def _entries(self, prefix: str, asked: Future[Response]) -> Iterator[ObjectEntry]:
        """The objects of a page that was asked for, and of all that follow."""
        while True:
            try:
                page = read_page(bytes(_answer(asked).body))
            except ValueError as error:
                said = f"its listing cannot be read: {error}"
                raise StoreError(StoreFault.UNREACHABLE, self._transfers.url(prefix), said) from error
            if page.token is None:
                yield from page.entries
                return
            # The store looks for the next page while this one is worked on.
            asked = self._ask_page(page_query(prefix, token=page.token))
            yield from page.entries

    def _ask_page(self, query: str) -> Future[Response]:
        self._count("list")
        return self._transfers.ask("GET", "ListObjectsV2", "", query=query)

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """What the store says of an object."""
        self._count("head")
        asked = self._transfers.ask(
            "HEAD",
            "HeadObject",
            key,
            headers=[("x-amz-checksum-mode", "ENABLED")],
            query=_version(version_id),
        )
        return _then(asked, lambda response: _head(key, response))

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """The whole content of a small object."""
        self._count("get")
        asked = self._transfers.ask("GET", "GetObject", key, query=_version(version_id))
        return bytes(_answer(asked).body)

    def read_range(self, reference: ObjectReference, offset: int, length: int) -> bytes:
        """Exactly that range of the very object that is referred to."""
        if offset < 0 or length < 0 or offset + length > reference.size:
            raise ValueError(f"{offset} + {length} is not within {reference.size} bytes")
        if length == 0:
            return b""
        self._count("get")
        headers = [("range", f"bytes={offset}-{offset + length - 1}"), *_very(reference)]
        asked = self._transfers.ask(
            "GET", "GetObject", reference.key, headers=headers, query=_version(reference.version_id)
        )
        response = _answer(asked)
        self._hold(reference, response)
        if len(response.body) != length:
            raise StoreError(
                StoreFault.DAMAGED,
                self._transfers.url(reference.key),
                f"it gave {len(response.body)} bytes of {length}",
            )
        return bytes(response.body)

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """Write the content of the very object that is referred to into an open, empty file."""
        url = self._transfers.url(reference.key)
        if reference.size > PART_BYTES:
            self._count("get", -(-reference.size // RANGE_BYTES))
            return self._ranges.fetch(reference, url, descriptor, progress)
        self._count("get")
        return self._small.fetch(
            reference, descriptor, progress, lambda own: self._receive(reference, url, own, progress)
        )

    def _receive(
        self, reference: ObjectReference, url: str, descriptor: int, progress: Progress | None
    ) -> Future[str | None]:
        """Bring a small object by awscrt, which tries again and says what is wrong with it."""
        self._count("get")
        received = self._transfers.receive(
            reference.key,
            descriptor,
            _very(reference),
            _version(reference.version_id),
            progress,
        )

        def check(response: Response) -> None:
            self._hold(reference, response)
            if (size := os.fstat(descriptor).st_size) != reference.size:
                raise StoreError(StoreFault.DAMAGED, url, f"it gave {size} bytes of {reference.size}")

        return _then(received, check)

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition = ANY
    ) -> WrittenObject:
        """Make an object of a few bytes."""
        self._count("put")
        headers = [*metadata_headers(metadata), *_condition(condition)]
        answer = _answer(self._transfers.ask("PUT", "PutObject", key, headers=headers, body=body))
        return _stored(answer.headers)

    def send(
        self,
        key: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition = ANY,
        progress: Progress | None = None,
    ) -> Future[WrittenObject]:
        """Make an object of an upload."""
        url = self._transfers.url(key)
        if upload.size > PART_BYTES:
            self._count("put", -(-upload.size // part_bytes(upload.size)) + 2)
            return _then(self._parts.send(key, url, upload, metadata, condition, progress), _made)
        headers = [*metadata_headers(metadata), *_condition(condition)]

        def by_awscrt() -> Future[Mapping[str, str]]:
            self._count("put")
            return _then(self._transfers.send(key, upload, headers, progress), lambda made: made.headers)

        self._count("put")
        return _then(self._small.send(key, upload, dict(headers), progress, by_awscrt), _stored)

    def begin_uploads(self, journal: UploadJournal) -> None:
        """Abort what a killed command has begun in parts, and note what is begun from now on."""
        self._parts.begin_uploads(journal)

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> WrittenObject:
        """Make an object of another one of the bucket, with these metadata."""
        from s3transfer.manager import TransferManager

        self._count("copy", -(-source.size // MOST_TO_COPY) or 1)
        where = {"Bucket": self.bucket, "Key": source.key}
        if source.version_id:
            where["VersionId"] = source.version_id
        extra = {"Metadata": dict(metadata), "MetadataDirective": "REPLACE", **self._payer()}
        with botocore_faults(self._transfers.url(source.key)):
            if source.size > MOST_TO_COPY:
                with TransferManager(self._client) as manager:
                    manager.copy(where, self.bucket, key, extra_args=extra).result()
            else:
                self._client.copy_object(
                    Bucket=self.bucket,
                    Key=key,
                    CopySource=where,
                    CopySourceIfMatch=f'"{source.etag}"',
                    **extra,
                )
        head = _answer(self.head(key))
        return WrittenObject(head.entry.etag, head.version_id, head.crc64, head.entry.last_modified_ns)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._count("delete")
        with botocore_faults(self._transfers.url(key)):
            self._client.delete_object(Bucket=self.bucket, Key=key, **self._payer())

    def restore(self, key: str, version_id: str | None, days: int, tier: str) -> None:
        """Have an archived object made readable for some days; done where that is under way."""
        self._count("restore")
        version = {"VersionId": version_id} if version_id else {}
        request = {"Days": days, "GlacierJobParameters": {"Tier": tier}}
        try:
            with botocore_faults(self._transfers.url(key)):
                self._client.restore_object(Bucket=self.bucket, Key=key, RestoreRequest=request, **version)
        except StoreError as error:
            if "already in progress" not in error.said:
                raise

    def close(self) -> None:
        """Give up what is under way."""
        self._transfers.close()
        self._ranges.close()
        self._small.close()
        self._parts.close()

    def _count(self, kind: str, requests: int = 1) -> None:
        self._pace.wait(requests)
        for _ in range(requests):
            self._requests.add(kind)

    def _payer(self) -> dict[str, str]:
        return {"RequestPayer": "requester"} if self._connection.requester_pays else {}

    def _hold(self, reference: ObjectReference, response: Response) -> None:
        """Hold a response to what was asked for: a store, or a cache on the way, may ignore If-Match."""
        etag = _unquoted(response.headers.get("etag", ""))
        if etag != reference.etag:
            url = self._transfers.url(reference.key)
            raise StoreError(
                StoreFault.CHANGED, url, f"its ETag is {etag or 'missing'}, not {reference.etag}"
            )


def _then(asked: Future[_Made], what: Any) -> Future[Any]:  # noqa: ANN401 - a future of what it returns
    """The future of what a function makes of the result of another future."""
    made: Future[Any] = Future()
    made.set_running_or_notify_cancel()

    def go_on(done: Future[_Made]) -> None:
        try:
            made.set_result(what(done.result()))
        except BaseException as error:
            made.set_exception(error)

    asked.add_done_callback(go_on)
    return made


def _answer(asked: Future[_Found]) -> _Found:
    return asked.result(_ANSWER_S)


def _unquoted(etag: str) -> str:
    return etag.strip('"')


def _version(version_id: str | None) -> str:
    return f"?versionId={quote(version_id, safe='')}" if version_id else ""


def _very(reference: ObjectReference) -> Headers:
    return [("if-match", f'"{reference.etag}"')]


def _condition(condition: WriteCondition) -> Headers:
    if condition.none_there:
        return [("if-none-match", "*")]
    return [("if-match", f'"{condition.etag}"')] if condition.etag else []


def _made(answer: Mapping[str, Any]) -> WrittenObject:
    """What botocore says of an object that was made of parts."""
    return _stored({**answer["ResponseMetadata"]["HTTPHeaders"], **_of_body(answer)})


def _of_body(answer: Mapping[str, Any]) -> dict[str, str]:
    """What the answer to the last request of an upload in parts has in its body, as headers have it."""
    names = {
        "etag": "ETag", "x-amz-version-id": "VersionId", "x-amz-checksum-type": "ChecksumType",
        "x-amz-checksum-crc64nvme": "ChecksumCRC64NVME",
    }  # fmt: skip
    return {name: answer[field] for name, field in names.items() if field in answer}


def _stored(headers: Mapping[str, str]) -> WrittenObject:
    stored_ns = _moment_ns(headers.get("date"))
    if stored_ns:
        stored_ns += _LATE_NS
    return WrittenObject(
        _unquoted(headers.get("etag", "")),
        _named_version(headers),
        _hexadecimal(headers),
        stored_ns,
    )


def _moment_ns(text: str | None) -> int:
    """A moment of a header (RFC 9110, 5.6.7), since 1970; 0 where there is none."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 10**9 if text else 0
    except ValueError:
        return 0


def _named_version(headers: Mapping[str, str]) -> str | None:
    version = headers.get("x-amz-version-id")
    return None if version in (None, "null") else version


def _hexadecimal(headers: Mapping[str, str]) -> str | None:
    """The CRC-64/NVME of the whole object; stores give it in base64."""
    text = headers.get("x-amz-checksum-crc64nvme")
    if not text or headers.get("x-amz-checksum-type", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    try:
        return base64.b64decode(text, validate=True).hex()
    except ValueError:
        return None


def _is_encrypted(headers: Mapping[str, str]) -> bool:
    """Whether an ETag is no MD5 since keys of the user's own encrypt (Amazon S3 API, Object: ETag)."""
    start = "x-amz-server-side-encryption"
    return headers.get(start, "").startswith("aws:kms") or f"{start}-customer-algorithm" in headers


def _head(key: str, response: Response) -> ObjectHead:
    headers = response.headers
    etag = _unquoted(headers.get("etag", ""))
    restore = headers.get("x-amz-restore", "")
    parts = _PARTS.search(etag)
    entry = ObjectEntry(
        key=key,
        size=int(headers.get("content-length", "0")),
        etag=etag,
        last_modified_ns=_moment_ns(headers.get("last-modified")),
        storage_class=headers.get("x-amz-storage-class", "STANDARD"),
    )
    start = "x-amz-meta-"
    return ObjectHead(
        entry=entry,
        metadata={
            name.removeprefix(start): value for name, value in headers.items() if name.startswith(start)
        },
        version_id=_named_version(headers),
        crc64=_hexadecimal(headers),
        parts=int(parts[1]) if parts else None,
        has_md5=_MD5.fullmatch(etag) is not None and not _is_encrypted(headers),
        is_restored='ongoing-request="false"' in restore,
        is_being_restored='ongoing-request="true"' in restore,
    )
