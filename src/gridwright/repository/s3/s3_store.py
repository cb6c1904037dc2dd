"""One bucket of S3, or of a store that speaks its protocol.

Pages of a listing are read here: botocore takes four times as long for one. Objects come by ranges, each one
request that is read into a small buffer. versitygw 1.8.0 takes a delete marker for the version before it, in
both conditions of a request: deleted objects are made anew with that in mind.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.connection import BucketConnection
from gridwright.repository.s3.faults import botocore_faults, missing
from gridwright.repository.s3.parts import (
    MOST_TO_COPY,
    PART_BYTES,
    PartSending,
    answered,
    copied_part_count,
    part_count,
)
from gridwright.repository.s3.plain import (
    ContentFile,
    FileFault,
    PlainConnection,
    PlainRequests,
    StoreRequest,
)
from gridwright.repository.s3.request_threads import (
    FilePlace,
    Pace,
    RequestThreads,
    SmallFiles,
    Work,
    own_descriptor,
)
from gridwright.repository.s3.small_objects import (
    MOST_NS,
    Moved,
    UploadBody,
    ask_headers,
    ask_whole,
    fetch,
    fetch_by_botocore,
    head_of,
    headers_of,
    parameters_of,
    send,
    sum_parameters,
    unquoted,
    written,
)
from gridwright.repository.s3.tries import ANSWER_S, Tries, answer_of, hand_on, then
from gridwright.repository.state_directory import UploadJournal
from gridwright.repository.store import (
    ANY,
    PAGE,
    UNREADABLE,
    FetchedFile,
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
    crc64_of_pieces,
)

RANGE_BYTES = 16 << 20
"""Bytes of one request: so many that asking costs nothing beside them."""


class _Object:
    """One object on its way; threads share it."""

    def __init__(
        self,
        reference: ObjectReference,
        descriptor: int,
        makes: bool,
        progress: Progress | None,
        future: Future[FetchedFile] | None = None,
    ) -> None:
        """`descriptor` is its own; where it `makes` a new file, the future has it. Raises OSError."""
        self.reference, self.progress = reference, progress
        self.file = ContentFile(descriptor, reference.size)
        self.makes, self.is_unusual = makes, False
        """Whether a plain request had an unusual answer just before, or none."""
        self.left = range_count(reference.size)
        """Ranges that have not arrived."""
        self.future = Future[FetchedFile]() if future is None else future
        self.sums: dict[int, tuple[int, int]] = {}
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
        small: SmallFiles,
        reference: ObjectReference,
        url: str,
        place: FilePlace,
        progress: Progress | None,
    ) -> Future[FetchedFile]:
        """Write the very object that is referred to into a file.

        The future's exception is a StoreError, or an OSError of the file.
        """
        size, makes = reference.size, place[1]
        if not small.take(size):
            wanted = _Object(reference, own_descriptor(place), makes, progress)
            threads.under_way.begin(wanted.future)
            self._fetch(threads, wanted, url)
            return wanted.future

        def made(crc: int, descriptor: int) -> FetchedFile:
            Moved(progress).to(size)
            return descriptor if makes else None, f"{crc:016x}"

        def anew(future: Future[FetchedFile], other: int, is_unusual: bool) -> None:
            wanted = _Object(reference, other, makes, progress, future)
            wanted.is_unusual = is_unusual
            self._fetch(threads, wanted, url)

        request = _get_request(reference, (0, size))
        return small.fetch(request, (size, reference.etag), place, made, anew)

    def _fetch(self, threads: RequestThreads, wanted: _Object, url: str) -> None:
        size = wanted.reference.size
        for place in range(wanted.left):
            start = place * RANGE_BYTES
            span = start, min(start + RANGE_BYTES, size)

            def work(connection: PlainConnection, span: tuple[int, int] = span) -> None:
                error: BaseException | None = None
                if not wanted.future.done():
                    try:
                        self._bring(threads, connection, wanted, span, url)
                    except BaseException as found:
                        error = found
                self._ended(threads, wanted, error)

            threads.put(work)

    def _bring(
        self,
        threads: RequestThreads,
        connection: PlainConnection,
        wanted: _Object,
        span: tuple[int, int],
        url: str,
    ) -> None:
        reference, moved = wanted.reference, Moved(wanted.progress)
        request = _get_request(reference, span)
        more: dict[str, Any] = {"IfMatch": request.headers["if-match"], **self._more}
        more |= _version(reference.version_id)
        if "range" in request.headers:
            more["Range"] = request.headers["range"]

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
            None
            if wanted.is_unusual
            else lambda each: fetch(each, request, reference, span, wanted.file, moved),
            by_botocore,
        )
        with self._lock:
            wanted.sums[span[0]] = (crc, span[1] - span[0])

    def _ended(self, threads: RequestThreads, wanted: _Object, error: BaseException | None) -> None:
        with self._lock:
            wanted.left -= 1
            is_last = wanted.left == 0
        is_whole = is_last and error is None and not wanted.future.done()
        if is_last:
            wanted.file.close(keep=wanted.makes and is_whole)
        if error is not None:
            threads.under_way.failed(wanted.future, error)
        elif is_whole:
            descriptor = wanted.file.descriptor if wanted.makes else None
            threads.under_way.done(wanted.future, (descriptor, f"{crc64_of_pieces(wanted.sums):016x}"))


def _get_request(reference: ObjectReference, span: tuple[int, int]) -> StoreRequest:
    """A request for a range of the very object that is referred to."""
    headers = {"if-match": f'"{reference.etag}"'}
    if span != (0, reference.size):
        headers["range"] = f"bytes={span[0]}-{span[1] - 1}"
    return StoreRequest("GET", "GetObject", reference.key, _query(reference.version_id), headers)


_NAME = re.compile(r"(\{[^}]*\})?(.*)", re.DOTALL)
"""A name of an element with its name space: stores have S3's, their own, or none."""
STANDARD = "STANDARD"
_MOST_SIZE = 2**63 - 1
_MOST_TAGS = 60 * PAGE
"""A page has some ten elements an object, each with two tags: many small ones take fifty times their text."""
_SIZE = re.compile(r"[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Some objects of a bucket, and where the next page begins."""

    entries: list[ObjectEntry]
    token: str | None
    """What the next request says; None where this was the last page."""


def page_query(prefix: str, page: int = PAGE, token: str | None = None) -> str:
    """The query of a request for a page of so many objects."""
    wanted = {"encoding-type": "url", "list-type": "2", "max-keys": str(page), "prefix": prefix}
    if token is not None:
        wanted["continuation-token"] = token
    return "&".join(f"{name}={quote(wanted[name], safe='~')}" for name in sorted(wanted))


def read_page(body: bytes) -> ListingPage:
    """Read an answer. Raises ValueError where it is no page of a listing as ListObjectsV2 gives it."""
    if body.count(b"<") > _MOST_TAGS:
        raise ValueError(f"it has more than {_MOST_TAGS} tags")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - of the store that the user has named
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML ({error})") from error
    space, name = _NAME.fullmatch(root.tag).groups(default="")  # type: ignore[union-attr] # fits all text
    if name != "ListBucketResult":
        raise ValueError(f"it is {root.tag[:80]!r}, no listing")
    said = {each.tag.removeprefix(space): each.text or "" for each in root}
    # Google's XML API spells it in the other way.
    is_escaped = "url" in (said.get("EncodingType"), said.get("Encoding-Type"))
    cut = len(space)
    entries = []
    for content in root.iterfind(f"{space}Contents"):
        found = {each.tag[cut:]: each.text or "" for each in content}
        if not found.get("ETag"):
            raise ValueError(f"its object {found.get('Key', '')[:80]!r} has no ETag")
        try:
            entries.append(_entry(found, is_escaped=is_escaped))
        except (KeyError, ValueError, OverflowError) as error:
            raise ValueError(f"an object of it cannot be read ({error!r})") from error
    if said.get("IsTruncated") not in ("true", "false"):
        raise ValueError("it does not say whether it goes on")
    is_cut = said["IsTruncated"] == "true"
    token = said.get("NextContinuationToken") if is_cut else None
    if is_cut and not token:
        raise ValueError(
            "it has the form of the old ListObjects, and says not how it goes on"
            if "Marker" in said or "NextMarker" in said
            else "it goes on, and does not say where"
        )
    return ListingPage(entries, token)


def _entry(found: dict[str, str], *, is_escaped: bool) -> ObjectEntry:
    key = unquote_plus(found["Key"]) if is_escaped else found["Key"]
    moment = datetime.fromisoformat(found["LastModified"])
    size = int(found["Size"]) if _SIZE.fullmatch(found["Size"]) else -1
    return _object(key, size, found["ETag"], moment, found.get("StorageClass", STANDARD))


def _object(key: str, size: int, etag: str, moment: datetime, storage_class: str) -> ObjectEntry:
    """An object, or an unreadable one for a senseless size or moment.

    Its key is there, so that its file is not taken for one whose object was deleted.
    """
    try:
        moment_ns = int(moment.timestamp()) * 10**9
    except (ValueError, OverflowError):
        moment_ns = MOST_NS + 1
    if not 0 <= size <= _MOST_SIZE or abs(moment_ns) > MOST_NS:
        return ObjectEntry(key, 0, UNREADABLE, 0, STANDARD)
    return ObjectEntry(key, size, etag.strip('"'), moment_ns, storage_class)


def page_of_botocore(answer: Mapping[str, Any]) -> ListingPage:
    """The same, of what botocore has read. Raises ValueError."""
    entries = []
    for content in answer.get("Contents", ()):
        if not content.get("ETag"):
            raise ValueError(f"its object {content.get('Key', '')[:80]!r} has no ETag")
        storage_class = content.get("StorageClass", STANDARD)
        moment = content["LastModified"]
        entries.append(_object(content["Key"], content["Size"], content["ETag"], moment, storage_class))
    token = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
    if answer.get("IsTruncated") and not token:
        raise ValueError("it goes on, and does not say where")
    return ListingPage(entries, token)


def unless_deleted(
    made: Future[WrittenObject],
    look: Callable[[], str | None],
    over: Callable[[WriteCondition], Future[WrittenObject]],
    put: Callable[[Work], None],
) -> Future[WrittenObject]:
    """What was made where none should be; made over what was deleted, where that alone is in the way.

    `look` gives the ETag of what was deleted, and `put` has a thread do something.
    """
    future: Future[WrittenObject] = Future()

    def again(_: PlainConnection) -> None:
        try:
            etag = look()
            if etag is None:
                hand_on(made, future)
            else:
                over(WriteCondition(etag=etag)).add_done_callback(lambda done: hand_on(done, future))
        except BaseException as error:
            future.set_exception(error)

    def go_on(_: Future[WrittenObject]) -> None:
        error = made.exception()
        if isinstance(error, StoreError) and error.fault is StoreFault.CHANGED:
            put(again)
        else:
            hand_on(made, future)

    made.add_done_callback(go_on)
    return future


def last_version(listed: Mapping[str, Any], key: str) -> str | None:
    """The ETag of the last version of a key that is deleted, of an answer to ListObjectVersions."""
    markers = [each for each in listed.get("DeleteMarkers", ()) if each["Key"] == key]
    etags = [each["ETag"] for each in listed.get("Versions", ()) if each["Key"] == key]
    return unquoted(etags[0]) if etags and any(each["IsLatest"] for each in markers) else None


_FEW, _MANY = min(8, 2 * len(os.sched_getaffinity(0))), 64
"""Requests for small objects at once: so many at first, and at most. Where the store is near, more than two
of a core only take turns at it; where it is far, each that is slow lets one more begin."""
_LARGE = 16
"""Parts and ranges at once."""
_LARGE_BYTES = 256 << 10
"""Bytes of them that are moved at once: they stay in the cache of a core until they are written."""
_VERSIONS = 50  # Of a key that are looked at for its last one.
_NOT_THAT = (StoreFault.CHANGED, StoreFault.NOT_THERE)
_EMPTY_PAGES = 1000
"""Pages of a listing in a row that may be without an object."""
_PAGES_AHEAD = 8
"""Pages of a listing that wait to be taken, of 1,000 objects and about 0.5 MB each."""


class _Pages:
    """The pages of a listing: the store looks for the next ones while those that came are worked on."""

    def __init__(self, ask: Callable[[str | None], Future[ListingPage]]) -> None:
        self._ask = ask
        self._asked: queue.SimpleQueue[Future[ListingPage]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._next: str | None = None
        """Where the listing goes on, once there is room for a page."""
        self._begin(None)

    def take(self) -> ListingPage:
        """The next page, after one with a token. Raises StoreError."""
        page = answer_of(self._asked.get())
        with self._lock:
            token, self._next = self._next, None
        if token is not None:
            self._begin(token)
        return page

    def _begin(self, token: str | None) -> None:
        asked = self._ask(token)
        self._asked.put(asked)
        asked.add_done_callback(self._go_on)

    def _go_on(self, done: Future[ListingPage]) -> None:
        """Ask for the page after one that has come, or leave that to who takes one."""
        if done.exception() is not None or (token := done.result().token) is None:
            return
        with self._lock:
            if self._asked.qsize() >= _PAGES_AHEAD:
                self._next = token
                return
        self._begin(token)


class S3Store:
    """The `ObjectStore` of one bucket."""

    def __init__(
        self, connection: BucketConnection, *, pace: Pace | None = None, pause_ms: int = 200
    ) -> None:
        self._connection = connection
        self._plain = PlainRequests(connection)
        self._tries = Tries(pause_ms / 1000)
        self._small = RequestThreads(self._plain, self._tries, _FEW, _MANY)
        self._small_files = SmallFiles(self._plain, self._small, _FEW, _MANY)
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
        """All objects whose keys begin so; the first pages are asked for at once."""
        return self._entries(prefix, _Pages(lambda token: self._ask_page(prefix, page, token)))

    def _entries(self, prefix: str, pages: _Pages) -> Iterator[ObjectEntry]:
        """The objects of the pages of a listing."""
        url, tokens, firsts, empty = self._plain.url(prefix), set[int](), set[int](), 0
        since_s = time.monotonic()
        while True:
            page = pages.take()
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
            yield from page.entries

    def _ask_page(self, prefix: str, size: int, token: str | None) -> Future[ListingPage]:
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
        return then(self._fetch(reference, (descriptor, False), progress), itemgetter(1))

    def fetch_new(
        self, reference: ObjectReference, directory: int, progress: Progress | None = None
    ) -> Future[FetchedFile]:
        """The same, into a new file without a name."""
        return self._fetch(reference, (directory, True), progress)

    def _fetch(
        self, reference: ObjectReference, place: FilePlace, progress: Progress | None
    ) -> Future[FetchedFile]:
        self._count("get", range_count(reference.size))
        threads = self._small if reference.size <= PART_BYTES else self._large
        url = self._plain.url(reference.key)
        return self._ranges.fetch(threads, self._small_files, reference, url, place, progress)

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
            if looks and condition != ANY:
                self._count("head")
            made = self._parts.make(
                key, url, upload, metadata, condition, progress, looks=looks, sent_sum=sent_sum
            )
            return then(made, written)
        self._count("put")
        headers = {f"x-amz-meta-{name}": value for name, value in metadata.items()}
        request = StoreRequest("PUT", "PutObject", key, headers={**headers, **headers_of(condition)})
        span, moved = (0, upload.size), Moved(progress)

        def plainly(connection: PlainConnection) -> WrittenObject:
            answer, crc = send(connection, request, upload, span, moved, sent_sum)
            upload.sent(crc)
            return written(answer)

        def otherwise() -> WrittenObject:
            return written(self._put(key, upload, metadata, condition, moved, sent_sum))

        file = upload.open_file
        if file is None or sent_sum is not SentSum.NONE or not self._small_files.take(upload.size):
            return self._small.ask(plainly, otherwise)

        def taken(headers: dict[str, str], crc: int) -> WrittenObject:
            moved.to(upload.size)
            upload.sent(crc)
            return written(headers)

        def anew(future: Future[WrittenObject], is_unusual: bool) -> None:
            self._small.ask_for(future, None if is_unusual else plainly, otherwise)

        return self._small_files.send(request, file, taken, anew)

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

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> Future[WrittenObject]:
        """Make an object of another one of the bucket, with these metadata, over no other one."""
        url, able = self._plain.url(source.key), self.abilities
        is_itself = key == source.key
        condition = WriteCondition(etag=source.etag) if is_itself else WriteCondition(none_there=True)
        if source.size <= MOST_TO_COPY and (is_itself or able.copies_if_none_there):
            self._count("copy")
            where = {"Bucket": self.bucket, "Key": source.key, **_version(source.version_id)}
            # What is copied onto itself is the source, too, whose condition all stores heed.
            more = parameters_of(condition) if able.copies_if_none_there else {}

            def copied() -> WrittenObject:
                made = self._botocore(
                    "copy_object", url, Key=key, CopySource=where, CopySourceIfMatch=f'"{source.etag}"',
                    Metadata=dict(metadata), MetadataDirective="REPLACE", **more,
                )  # fmt: skip
                if not made.get("CopyObjectResult", {}).get("ETag"):
                    raise missing(url, "CopyObject", "ETag")
                return written(answered(made))

            return self._small.ask(lambda _: self._tries.of(copied), copied)
        if source.size and (is_itself or able.ends_parts_if_none_there):
            self._count("copy", copied_part_count(source.size) + 2)
            if is_itself:  # No trial has shown that the store heeds that condition in the end.
                self._count("head")
            made = self._parts.make(key, url, source, metadata, condition, looks=is_itself)
            return then(made, written)
        said = "it copies over what is there, whatever the condition"
        refused: Future[WrittenObject] = Future()
        refused.set_exception(StoreError(StoreFault.UNSUPPORTED, url, said, "CopyObject"))
        return refused

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
        self._small_files.close()
        self._large.close()
        self._parts.wait()

    def _count(self, kind: str, requests: int = 1) -> None:
        self._pace.wait(requests)
        self._requests.add(kind, requests)

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
