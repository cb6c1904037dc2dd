"""Asks for pages of a listing and reads them: botocore takes four times as long to read one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree

from gridwright.repository.store import ObjectEntry

PAGE = 1000
_SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
STANDARD = "STANDARD"
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Some objects of a bucket, and where the next page begins."""

    entries: list[ObjectEntry]
    token: str | None
    """What the next request says; None where this was the last page."""


def page_query(prefix: str, *, start_after: str | None = None, token: str | None = None) -> str:
    """The query of a request for a page."""
    wanted = {"encoding-type": "url", "list-type": "2", "max-keys": str(PAGE), "prefix": prefix}
    if token is not None:
        wanted["continuation-token"] = token
    elif start_after:
        wanted["start-after"] = start_after
    return "?" + "&".join(f"{name}={quote(wanted[name], safe='~')}" for name in sorted(wanted))


def read_page(body: bytes) -> ListingPage:
    """Read an answer. Raises ValueError where it is no page of a listing."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - of the store that the user has named
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML ({error})") from error
    space = _SPACE if root.tag.startswith(_SPACE) else ""
    if root.tag != f"{space}ListBucketResult":
        raise ValueError(f"it is {root.tag[:80]!r}, no listing")
    is_escaped = root.findtext(f"{space}EncodingType") == "url"
    cut = len(space)
    entries = []
    for content in root.iterfind(f"{space}Contents"):
        found = {each.tag[cut:]: each.text or "" for each in content}
        try:
            entries.append(_entry(found, is_escaped=is_escaped))
        except (KeyError, ValueError, OverflowError) as error:
            raise ValueError(f"an object of it cannot be read ({error!r})") from error
    is_cut = root.findtext(f"{space}IsTruncated") == "true"
    token = root.findtext(f"{space}NextContinuationToken") if is_cut else None
    if is_cut and not token:
        raise ValueError("it goes on, and does not say where")
    return ListingPage(entries, token)


def _entry(found: dict[str, str], *, is_escaped: bool) -> ObjectEntry:
    moment_ns = int(datetime.fromisoformat(found["LastModified"]).timestamp()) * 10**9
    size = int(found["Size"])
    if not (0 <= size <= _MOST and abs(moment_ns) <= _MOST):
        raise ValueError("no object has such a size or time")
    return ObjectEntry(
        key=unquote_plus(found["Key"]) if is_escaped else found["Key"],
        size=size,
        etag=found["ETag"].strip('"'),
        last_modified_ns=moment_ns,
        storage_class=found.get("StorageClass", STANDARD),
    )
