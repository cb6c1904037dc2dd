"""One bucket of S3, or of a store that speaks its protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from gridwright.repository.pace import Pace
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.answers import head_of, unquoted, written
from gridwright.repository.s3.conditions import headers_of, parameters_of
from gridwright.repository.s3.connection import BucketConnection
from gridwright.repository.s3.deleted import last_version, unless_deleted
from gridwright.repository.s3.faults import botocore_faults, missing
from gridwright.repository.s3.listing import ListingPage, page_of_botocore, page_query, read_page
from gridwright.repository.s3.moved import Moved
from gridwright.repository.s3.parts import PART_BYTES, PartSending, part_count
from gridwright.repository.s3.plain import FileFault, PlainConnection, PlainRequests, StoreRequest
from gridwright.repository.s3.ranges import RangeFetching, range_count
from gridwright.repository.s3.request_threads import RequestThreads
from gridwright.repository.s3.small_objects import UploadBody, ask_headers, ask_whole, send, sum_parameters
from gridwright.repository.s3.tries import Tries
from gridwright.repository.s3.under_way import ANSWER_S, answer_of, then
from gridwright.repository.store import (
    ANY,
    PAGE,
    ObjectEntry,
    ObjectHead,
    Progress,
    RequestCount,
    SentSum,
    SmallContent,
    StoreAbilities,
    StoreError,
    StoreFault,
    Upload,
    WriteCondition,
    WrittenObject,
)
from gridwright.repository.upload_journal import UploadJournal

MOST_TO_COPY = 5 * 10**9
"""Bytes of the largest object that one request copies: 5 GB."""
_FEW, _MANY = 8, 64
"""Requests for small objects at once: so many at first, and at most."""
_LARGE = 16
"""Parts and ranges at once."""
_LARGE_BYTES = 256 << 10
"""Bytes of them that are moved at once: they stay in the cache of a core until they are written."""
_VERSIONS = 50  # Of a key that are looked at for its last one.
_NOT_THAT = (StoreFault.CHANGED, StoreFault.NOT_THERE)
_EMPTY_PAGES = 1000
"""Pages of a listing in a row that may be without an object."""


class S3Store:
    """The `ObjectStore` of one bucket."""

    def __init__(
        self, connection: BucketConnection, *, pace: Pace | None = None, pause_ms: int = 200
    ) -> None:
        self._connection = connection
        self._plain = PlainRequests(connection)
        self._tries = Tries(pause_ms / 1000)
        self._small = RequestThreads(self._plain, self._tries, _FEW, _MANY)
        self._large = RequestThreads(self._plain, self._tries, _LARGE, _LARGE, _LARGE_BYTES)
        self._payer = {"RequestPayer": "requester"} if connection.requester_pays else {}
        self._ranges = RangeFetching(connection, self._payer)
        self._parts = PartSending(connection, self._payer, self._large, self._tries)
        self._pace = pace or Pace(None)
        self._requests = RequestCount()
        self.abilities = StoreAbilities()

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self._connection.bucket

    @property
    def place(self) -> str:
        """Which store it is."""
        return self._connection.store

    @property
    def software(self) -> str:
        """What the store says it is."""
        return self._plain.software

    @property
    def requests(self) -> RequestCount:
        """Requests so far."""
        return self._requests

    def list(self, prefix: str, page: int = PAGE) -> Iterator[ObjectEntry]:
        """All objects whose keys begin so; the first page is asked for at once."""
        return self._entries(prefix, page, self._ask_page(prefix, page))

    def _entries(self, prefix: str, size: int, asked: Future[ListingPage]) -> Iterator[ObjectEntry]:
        """The objects of a page that was asked for, and of all that follow."""
        url, tokens, firsts, empty = self._plain.url(prefix), set[int](), set[int](), 0
        since_s = time.monotonic()
        while True:
            page = answer_of(asked)
            if page.token is None:
                yield from page.entries
                return
            empty = 0 if page.entries else empty + 1
            # Not all stores list in the order of keys, and no page begins again with what one began with.
            first = hash(min(each.key for each in page.entries)) if page.entries else None
            is_stuck = empty > 0 and time.monotonic() - since_s > ANSWER_S
            if hash(page.token) in tokens or first in firsts or empty > _EMPTY_PAGES or is_stuck:
                said = "its listing never ends: it says again what it said before, or nothing"
                raise StoreError(StoreFault.UNSUPPORTED, url, said, "ListObjectsV2")
            tokens.add(hash(page.token))
            if first is not None:
                firsts.add(first)
                since_s = time.monotonic()
            # The store looks for the next page while this one is worked on.
            asked = self._ask_page(prefix, size, page.token)
            yield from page.entries

    def _ask_page(self, prefix: str, size: int, token: str | None = None) -> Future[ListingPage]:
        self._count("list")
        request = StoreRequest("GET", "ListObjectsV2", "", page_query(prefix, size, token))
        more = {"ContinuationToken": token} if token is not None else {}
        url = self._plain.url(prefix)

        def read(what: Callable[[], ListingPage]) -> ListingPage:
            try:
                return what()
            except ValueError as error:
                said = f"its listing cannot be read: {error}"
                raise StoreError(StoreFault.UNSUPPORTED, url, said, "ListObjectsV2") from error

        def plainly(connection: PlainConnection) -> ListingPage:
            body = ask_whole(connection, request)
            return read(lambda: read_page(body))

        def otherwise() -> ListingPage:
            found = self._botocore("list_objects_v2", url, MaxKeys=size, Prefix=prefix, **more)
            return read(lambda: page_of_botocore(found))

        return self._small.ask(plainly, otherwise)

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """What the store says of an object."""
        self._count("head")
        url = self._plain.url(key)
        headers = {"x-amz-checksum-mode": "ENABLED"}
        request = StoreRequest("HEAD", "HeadObject", key, _query(version_id), headers)

        def made(found: Mapping[str, str]) -> ObjectHead:
            if not found.get("etag"):
                raise missing(url, "HeadObject", "ETag")
            try:
                return head_of(key, found)
            except ValueError as error:
                said = f"its answer cannot be read ({error})"
                raise StoreError(StoreFault.UNSUPPORTED, url, said, "HeadObject") from error

        def otherwise() -> ObjectHead:
            found = self._botocore(
                "head_object", url, Key=key, ChecksumMode="ENABLED", **_version(version_id)
            )
            return made(found["ResponseMetadata"]["HTTPHeaders"])

        return self._small.ask(lambda connection: made(ask_headers(connection, request)), otherwise)

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """The whole content of a small object."""
        self._count("get")
        request, url = StoreRequest("GET", "GetObject", key, _query(version_id)), self._plain.url(key)
        return answer_of(
            self._small.ask(
                lambda connection: ask_whole(connection, request),
                lambda: self._read("get_object", url, Key=key, **_version(version_id)),
            )
        )

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """Write the content of the very object that is referred to into an open, empty file."""
        count = range_count(reference.size)
        self._count("get", count)
        threads = self._small if reference.size <= PART_BYTES else self._large
        return self._ranges.fetch(threads, reference, self._plain.url(reference.key), descriptor, progress)

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition = ANY
    ) -> WrittenObject:
        """Make an object of a few bytes."""
        return answer_of(self.send(key, SmallContent(body), metadata, condition))

    def send(
        self,
        key: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition = ANY,
        progress: Progress | None = None,
        *,
        in_parts: bool = False,
    ) -> Future[WrittenObject]:
        """Make an object of an upload."""
        made = self._send(key, upload, metadata, condition, progress, in_parts=in_parts, looks=not in_parts)
        if not condition.none_there or self.abilities.makes_anew:
            return made
        return unless_deleted(
            made,
            lambda: self._deleted(key),
            lambda met: self._send(key, upload, metadata, met, progress, in_parts=in_parts, looks=False),
            self._small.put,
        )

    def _deleted(self, key: str) -> str | None:
        """The ETag of the last version of a deleted object; None where one is there, or none ever was."""
        with suppress(StoreError):
            if not self._is_gone(key):
                return None
            url = self._plain.url(key)
            return last_version(self._ask("list_object_versions", url, Prefix=key, MaxKeys=_VERSIONS), key)
        return None

    def _send(
        self,
        key: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition,
        progress: Progress | None,
        *,
        in_parts: bool,
        looks: bool,
    ) -> Future[WrittenObject]:
        url, sent_sum = self._plain.url(key), self.abilities.sent_sum
        if in_parts or upload.size > PART_BYTES:
            self._count("put", part_count(upload.size) + 2)
            made = self._parts.make(
                key, url, upload, metadata, condition, progress, looks=looks, sent_sum=sent_sum
            )
            return then(made, written)
        self._count("put")
        headers = {f"x-amz-meta-{name}": value for name, value in metadata.items()}
        request = StoreRequest("PUT", "PutObject", key, headers={**headers, **headers_of(condition)})
        span, moved = (0, upload.size), Moved(progress)

        def plainly(connection: PlainConnection) -> Mapping[str, str]:
            answer, crc = send(connection, request, upload, span, moved, sent_sum)
            upload.sent(crc)
            return answer

        return then(
            self._small.ask(plainly, lambda: self._put(key, upload, metadata, condition, moved, sent_sum)),
            written,
        )

    def _put(
        self,
        key: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition,
        moved: Moved,
        sent_sum: SentSum,
    ) -> Mapping[str, str]:
        """Make a small object by botocore."""
        more = {**parameters_of(condition), **sum_parameters(upload, (0, upload.size), sent_sum)}
        body, url = UploadBody(upload, (0, upload.size)), self._plain.url(key)
        try:
            made = self._botocore("put_object", url, Key=key, Body=body, Metadata=dict(metadata), **more)
        except StoreError:
            if body.failure is not None:
                raise FileFault from body.failure
            raise
        if not made.get("ETag"):
            raise missing(url, "PutObject", "ETag")
        moved.to(upload.size)
        upload.sent(body.crc)
        headers: Mapping[str, str] = made["ResponseMetadata"]["HTTPHeaders"]
        return headers

    def begin_uploads(self, journal: UploadJournal) -> None:
        """Abort what a killed command has begun in parts, and note what is begun from now on."""
        self._parts.begin_uploads(journal)

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> WrittenObject:
        """Make an object of another one of the bucket, with these metadata, over no other one."""
        url, able = self._plain.url(source.key), self.abilities
        is_itself = key == source.key
        condition = WriteCondition(etag=source.etag) if is_itself else WriteCondition(none_there=True)
        if source.size <= MOST_TO_COPY and (is_itself or able.copies_if_none_there):
            self._count("copy")
            where = {"Bucket": self.bucket, "Key": source.key, **_version(source.version_id)}
            # What is copied onto itself is the source, too, whose condition all stores heed.
            more = parameters_of(condition) if able.copies_if_none_there else {}
            made = self._ask(
                "copy_object", url, Key=key, CopySource=where, CopySourceIfMatch=f'"{source.etag}"',
                Metadata=dict(metadata), MetadataDirective="REPLACE", **more,
            )  # fmt: skip
            etag = made.get("CopyObjectResult", {}).get("ETag", "")
        elif source.size and (is_itself or able.ends_parts_if_none_there):
            self._count("copy", -(-source.size // MOST_TO_COPY) + 2)
            etag = self._parts.make(key, url, source, metadata, condition).result().get("etag", "")
        else:
            said = "it copies over what is there, whatever the condition"
            raise StoreError(StoreFault.UNSUPPORTED, url, said, "CopyObject")
        head = answer_of(self.head(key))
        if etag and unquoted(etag) != head.entry.etag:
            said = "somebody else has written it meanwhile"
            raise StoreError(StoreFault.CHANGED, self._plain.url(key), said, "CopyObject")
        return WrittenObject(head.entry.etag, head.version_id, head.crc64, head.entry.last_modified_ns)

    def delete(self, key: str, etag: str | None = None) -> None:
        """Delete an object, where it is the known one."""
        self._count("delete")
        condition, url = WriteCondition(etag=etag), self._plain.url(key)
        request = StoreRequest("DELETE", "DeleteObject", key, headers=headers_of(condition))
        try:
            answer_of(
                self._small.ask(
                    lambda connection: ask_headers(connection, request, 204),
                    lambda: self._botocore("delete_object", url, Key=key, **parameters_of(condition)),
                )
            )
        except StoreError as error:
            if etag and error.fault is StoreFault.UNSUPPORTED:
                self.delete(key)
            # Stores refuse where nothing is, as after an answer that was lost.
            elif not etag or error.fault not in _NOT_THAT or not self._is_gone(key):
                raise

    def _is_gone(self, key: str) -> bool:
        try:
            answer_of(self.head(key))
        except StoreError as error:
            return error.fault is StoreFault.NOT_THERE
        return False

    def restore(self, key: str, version_id: str | None, days: int, tier: str) -> bool:
        """Have an archived object made readable for some days; whether that begins now."""
        head = answer_of(self.head(key, version_id))
        if head.is_being_restored or head.is_restored:
            return False
        self._count("restore")
        request: dict[str, Any] = {"GlacierJobParameters": {"Tier": tier}}
        # What Intelligent-Tiering has archived can be read for good then: S3 refuses days.
        if head.entry.storage_class != "INTELLIGENT_TIERING":
            request["Days"] = days
        try:
            self._ask(
                "restore_object",
                self._plain.url(key),
                Key=key,
                RestoreRequest=request,
                **_version(version_id),
            )
        except StoreError as error:
            if "already in progress" not in error.said:
                raise
            return False
        return True

    def close(self) -> None:
        """Give up what is under way."""
        self._small.close()
        self._large.close()
        self._parts.wait()

    def _count(self, kind: str, requests: int = 1) -> None:
        self._pace.wait(requests)
        for _ in range(requests):
            self._requests.add(kind)

    def _ask(self, operation: str, url: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """What botocore's client gives, in as many tries as there are. Raises StoreError."""
        return self._tries.of(lambda: self._botocore(operation, url, **more))

    def _botocore(self, operation: str, url: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401
        with botocore_faults(url):
            found: Mapping[str, Any] = getattr(self._connection.client, operation)(
                Bucket=self.bucket, **self._payer, **more
            )
        return found

    def _read(self, operation: str, url: str, **more: Any) -> bytes:  # noqa: ANN401
        with botocore_faults(url):
            return bytes(self._botocore(operation, url, **more)["Body"].read())


def _query(version_id: str | None) -> str:
    return f"versionId={quote(version_id, safe='~')}" if version_id else ""


def _version(version_id: str | None) -> dict[str, str]:
    return {"VersionId": version_id} if version_id else {}
