"""What the headers of answers say of objects."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache

from gridwright.repository.store import ObjectEntry, ObjectHead, WrittenObject

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
