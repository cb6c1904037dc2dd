"""One request each: objects of one part as a whole, their heads, and pages of listings."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.faults import missing
from gridwright.repository.s3.plain import (
    BUFFER_BYTES,
    ContentFile,
    FileFault,
    PlainConnection,
    StoreRequest,
    Unusual,
)
from gridwright.repository.store import (
    ObjectEntry,
    ObjectHead,
    Progress,
    SentSum,
    StoreError,
    StoreFault,
    Upload,
    WriteCondition,
    WrittenObject,
    crc64,
)


class Moved:
    """Tells of the bytes of one range, each once. One thread uses it at a time."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._most = 0

    def to(self, count: int) -> None:
        """So many bytes from the beginning of the range have been moved."""
        if count > self._most:
            if self._progress is not None:
                self._progress(count - self._most)
            self._most = count


def headers_of(condition: WriteCondition) -> dict[str, str]:
    """A condition as headers have it."""
    if condition.none_there:
        return {"if-none-match": "*"}
    return {"if-match": f'"{condition.etag}"'} if condition.etag else {}


def parameters_of(condition: WriteCondition) -> dict[str, str]:
    """A condition as botocore has it."""
    if condition.none_there:
        return {"IfNoneMatch": "*"}
    return {"IfMatch": f'"{condition.etag}"'} if condition.etag else {}


_PARTS = re.compile(r"-([0-9]{1,5})$", re.ASCII)
_MD5 = re.compile(r"[0-9a-f]{32}(?:-[0-9]{1,5})?", re.ASCII)
MOST_NS = 2**63 - 1
"""The latest moment that is taken for one, in ns since 1970: year 2262."""
_LATE_NS = 10**9
"""Servers make the Date of their answers once a second, so that it may be earlier than that of the object."""


def unquoted(etag: str) -> str:
    """An ETag without its quotation marks."""
    return etag.strip('"')


def written(headers: Mapping[str, str]) -> WrittenObject:
    """What a store said when it took an object."""
    stored_ns = _moment_ns(headers.get("date"))
    if stored_ns:
        stored_ns += _LATE_NS
    return WrittenObject(
        unquoted(headers.get("etag", "")),
        _named_version(headers),
        _hexadecimal(headers),
        stored_ns,
    )


@lru_cache(maxsize=16)
def _moment_ns(text: str | None) -> int:
    """A moment of a header (RFC 9110, 5.6.7), since 1970; 0 where there is none."""
    try:
        found = int(parsedate_to_datetime(text).timestamp()) * 10**9 if text else 0
    except (ValueError, OverflowError):
        return 0
    return found if abs(found) <= MOST_NS else 0


def _named_version(headers: Mapping[str, str]) -> str | None:
    version = headers.get("x-amz-version-id")
    return None if version in (None, "null") else version


def _hexadecimal(headers: Mapping[str, str]) -> str | None:
    """The CRC-64/NVME of the whole object; stores give it in base64."""
    text = headers.get("x-amz-checksum-crc64nvme")
    if not text or headers.get("x-amz-checksum-type", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return found.hex() if len(found) == 8 else None


def _is_encrypted(headers: Mapping[str, str]) -> bool:
    """Whether an ETag is no MD5 since keys of the user's own encrypt (Amazon S3 API, Object: ETag)."""
    start = "x-amz-server-side-encryption"
    return headers.get(start, "").startswith("aws:kms") or f"{start}-customer-algorithm" in headers


def head_of(key: str, headers: Mapping[str, str]) -> ObjectHead:
    """What a store says of an object."""
    etag = unquoted(headers.get("etag", ""))
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


CRC64_SUMS = (SentSum.CRC64, SentSum.WRONG)
_HEADERS = {
    "ContentMD5": "content-md5",
    "ChecksumCRC64NVME": "x-amz-checksum-crc64nvme",
    "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm",
}


def ask_whole(connection: PlainConnection, request: StoreRequest) -> bytes:
    """The body of an answer. Raises StoreError, Unusual, OSError."""
    connection.begin(request)
    body = connection.body(*connection.answer(request))
    connection.done()
    return body


def ask_headers(connection: PlainConnection, request: StoreRequest, wanted: int = 200) -> dict[str, str]:
    """The headers of an answer of that status. Raises StoreError, Unusual, OSError."""
    connection.begin(request)
    return connection.taken(request, wanted)


def fetch(
    connection: PlainConnection,
    request: StoreRequest,
    reference: ObjectReference,
    span: tuple[int, int],
    file: ContentFile,
    moved: Moved,
) -> int:
    """Write a range of the very object that is referred to into an open file; its CRC-64/NVME.

    Raises StoreError, Unusual, OSError of the connection, and FileFault.
    """
    start, end = span
    is_part = "range" in request.headers
    connection.begin(request)
    headers, at, filled = connection.answer(request, 206 if is_part else 200)
    place = f"bytes {start}-{end - 1}/{reference.size}"
    if (
        int(headers.get("content-length", "-1")) != end - start
        or unquoted(headers.get("etag", "")) != reference.etag
        or (is_part and headers.get("content-range") != place)
        or "transfer-encoding" in headers
        or "content-encoding" in headers
        or filled - at > end - start
    ):
        raise Unusual
    filled, crc = filled - at, 0
    connection.view[:filled] = connection.view[at : at + filled]
    while start < end:
        filled, start, crc = connection.receive_into_file(filled, file, start, end, crc)
        moved.to(start - span[0])
    connection.done()
    return crc


def fetch_by_botocore(
    body: Any,  # noqa: ANN401 - botocore's
    answer: Mapping[str, Any],
    reference: ObjectReference,
    span: tuple[int, int],
    file: ContentFile,
    moved: Moved,
    url: str,
) -> int:
    """The same, of what botocore has for it. Raises StoreError and FileFault."""
    from botocore.exceptions import BotoCoreError
    from urllib3.exceptions import HTTPError

    start, end = span
    hold(reference, answer.get("ETag", ""), url)
    place = answer.get("ContentRange", "")
    if (end - start) != reference.size and place != f"bytes {start}-{end - 1}/{reference.size}":
        said = f"it gave {place or 'no range'} for bytes {start}-{end - 1}"
        raise StoreError(StoreFault.DAMAGED, url, said, "GetObject")
    at, crc = start, 0
    try:
        while at < end and (piece := body.read(min(BUFFER_BYTES, end - at))):
            crc = crc64(piece, crc)
            file.write_at(memoryview(piece), at)
            at += len(piece)
            moved.to(at - start)
    except (BotoCoreError, HTTPError, OSError) as error:
        raise StoreError(StoreFault.UNREACHABLE, url, str(error), "GetObject") from error
    if at != end:
        said = f"it gave {at - start} bytes of {end - start}"
        raise StoreError(StoreFault.DAMAGED, url, said, "GetObject")
    return crc


def hold(reference: ObjectReference, etag: str, url: str) -> None:
    """Hold an answer to what was asked for: a store, or a cache on the way, may ignore If-Match."""
    if (found := unquoted(etag)) != reference.etag:
        said = f"its ETag is {found or 'missing'}, not {reference.etag}"
        raise StoreError(StoreFault.CHANGED, url, said, "GetObject")


def in_base64(crc: int) -> str:
    """A CRC-64/NVME as S3 has it."""
    return base64.b64encode(crc.to_bytes(8, "big")).decode()


def sum_parameters(
    upload: Upload, span: tuple[int, int], which: SentSum, view: memoryview | None = None
) -> dict[str, str]:
    """The checksum of a range of an upload as botocore has it; all of it is read. Raises FileFault."""
    if which is SentSum.NONE:
        return {}
    room = memoryview(bytearray(BUFFER_BYTES)) if view is None else view
    (at, end), crc, md5 = span, 0, hashlib.md5(usedforsecurity=False)
    while at < end:
        piece = room[: min(len(room), end - at)]
        try:
            upload.read_at(piece, at)
        except Exception as error:
            raise FileFault from error
        at += len(piece)
        if which is SentSum.MD5:
            md5.update(piece)
        else:
            crc = crc64(piece, crc)
    if which is SentSum.MD5:
        return {"ContentMD5": base64.b64encode(md5.digest()).decode()}
    crc ^= which is SentSum.WRONG
    return {"ChecksumCRC64NVME": in_base64(crc), "ChecksumAlgorithm": "CRC64NVME"}


def send(
    connection: PlainConnection,
    request: StoreRequest,
    upload: Upload,
    span: tuple[int, int],
    moved: Moved,
    sent_sum: SentSum = SentSum.NONE,
) -> tuple[dict[str, str], int]:
    """Send a range of an upload; the headers of the answer, and the range's CRC-64/NVME.

    Nothing has changed the file before the last byte leaves. Raises StoreError, Unusual, OSError of the
    connection, and FileFault.
    """
    at, end = span
    if sent_sum is not SentSum.NONE:
        found = sum_parameters(upload, span, sent_sum, connection.view)
        more = {_HEADERS[name]: value for name, value in found.items()}
        request = replace(request, headers={**request.headers, **more})
    connection.begin(request, end - at)
    crc = 0
    while at < end:
        piece = connection.view[: min(len(connection.view), end - at)]
        try:
            upload.read_at(piece, at)
            at += len(piece)
            if at == end:
                upload.check()
        except Exception as error:
            raise FileFault from error
        crc = crc64(piece, crc)
        connection.send(piece, is_last=at == end)
        moved.to(at - span[0])
    answer = connection.taken(request)
    if not answer.get("etag"):
        raise missing(connection.requests.url(request.key), request.operation, "ETag")
    return answer, crc


class UploadBody(io.RawIOBase):
    """A range of an upload as botocore reads it, which may be more than once; never all of it in memory."""

    def __init__(self, upload: Upload, span: tuple[int, int]) -> None:
        super().__init__()
        self._upload = upload
        self._start, self._end = span
        self._at = self._start
        self.crc = 0
        """CRC-64/NVME of what was read since the beginning, in the end."""
        self.failure: BaseException | None = None
        """What reading has raised: botocore makes an error of the connection of it."""

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever is a buffer
        """Fill as much of a buffer as there is content for."""
        view = memoryview(buffer).cast("B")
        piece = view[: self._end - self._at]
        try:
            self._upload.read_at(piece, self._at)
            if piece and self._at + len(piece) == self._end:
                self._upload.check()
        except BaseException as error:
            self.failure = error
            raise
        self.crc = crc64(piece, self.crc)
        self._at += len(piece)
        return len(piece)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to the beginning or to the end, as who wants to know the length does."""
        self._at = self._start + offset if whence == os.SEEK_SET else self._end + offset
        if self._at == self._start:
            self.crc = 0
        return self.tell()

    def tell(self) -> int:
        """How far it is read."""
        return self._at - self._start
