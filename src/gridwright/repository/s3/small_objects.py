"""One request each: objects of one part as a whole, their heads, and pages of listings."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gridwright.repository.crc64 import crc64
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.answers import unquoted
from gridwright.repository.s3.faults import missing
from gridwright.repository.s3.moved import Moved
from gridwright.repository.s3.plain import (
    BUFFER_BYTES,
    ContentFile,
    FileFault,
    PlainConnection,
    StoreRequest,
    Unusual,
)
from gridwright.repository.store import SentSum, StoreError, StoreFault, Upload

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
