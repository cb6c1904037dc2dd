"""Asks for pages of a listing and reads them: botocore takes four times as long to read one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree

from gridwright.repository.s3.answers import MOST_NS
from gridwright.repository.store import PAGE, UNREADABLE, ObjectEntry

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
