"""Objects of a linked bucket by Object Storage's own API, with the credentials that all of OCI takes."""

from __future__ import annotations

import base64
import binascii
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.repository.references import ObjectReference
from gridwright.repository.store import (
    PAGE,
    ObjectEntry,
    ObjectHead,
    Progress,
    RequestCount,
    StoreError,
    StoreFault,
)
from gridwright.spec.repository import NamespacedPlace

_OBJECTS = ("object_storage", "ObjectStorageClient")
_FIELDS = "name,size,etag,md5,timeModified,storageTier"
"""What a listing tells of each object (Object Storage API, ListObjects)."""
_CHUNK = 1 << 20
_FAULTS = {404: StoreFault.NOT_THERE, 409: StoreFault.ARCHIVED, 412: StoreFault.CHANGED}
"""GetObject: gone, not restored from the archive tier, or not the object that `if-match` names."""


class OciObjects:
    """See ReadableStore; calls are bounded by OciCloud. Raises OciCallError for all but single objects."""

    def __init__(self, cloud: OciCloud, place: NamespacedPlace) -> None:
        self._cloud, self._place = cloud, place
        self._where = (place.namespace, place.bucket)
        self.requests = RequestCount()
        # A verify asks for heads of what it listed just now, by no more than one page back.
        self._pages: deque[dict[str, Any]] = deque(maxlen=2)

    def list(self, prefix: str, page: int = PAGE) -> Iterator[ObjectEntry]:
        """See ReadableStore. A bucket that is not there is told as what links need."""
        more: dict[str, Any] = {"limit": page}
        while True:
            found = self._page(prefix, more)
            self._pages.append({str(each.name): each for each in found.objects})
            yield from map(_entry, found.objects)
            if not found.next_start_with:
                return
            if (start := str(found.next_start_with)) == more.get("start"):
                said = "its listing goes on where it began"
                raise StoreError(StoreFault.UNSUPPORTED, prefix, said, "ListObjects")
            more = {"limit": page, "start": start}

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """See ReadableStore: what the listing said, which has the MD5 of objects in one part."""
        found: Future[ObjectHead] = Future()
        listed = self._listed(key)
        if listed is None:
            found.set_exception(StoreError(StoreFault.NOT_THERE, key))
        else:
            found.set_result(ObjectHead(_entry(listed), {}))
        return found

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """See ReadableStore."""
        return b"".join(self._content(key, None))

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """See ReadableStore; it is done when this returns."""
        done: Future[str | None] = Future()
        listed = self._listed(reference.key)
        size = 0
        try:
            for chunk in self._content(reference.key, None if listed is None else str(listed.etag)):
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                size += len(chunk)
                if progress is not None:
                    progress(len(chunk))
            if size != reference.size:
                raise StoreError(StoreFault.DAMAGED, reference.key, f"{size} of {reference.size} bytes came")
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _listed(self, key: str) -> Any:  # noqa: ANN401 - a model of the SDK, which has no types
        return next((page[key] for page in self._pages if key in page), None)

    def _page(self, prefix: str, more: dict[str, str]) -> Any:  # noqa: ANN401
        self.requests.add("list")
        found = self._cloud.found(
            *_OBJECTS, "list_objects", *self._where, prefix=prefix, fields=_FIELDS, **more
        )
        if found is None:
            raise environment_error(
                f"bucket {self._place.bucket} of namespace {self._place.namespace} is not in "
                f"{self._cloud.region}, or these credentials may not see it",
                where=f"OCI, {self._cloud.region}",
                remedy="links reach buckets of the same region and tenancy alone: make it there, or name "
                "another one, or have an administrator allow it by a policy",
            )
        return found

    def _content(self, key: str, etag: str | None) -> Iterator[bytes]:
        self.requests.add("get")
        more = {} if etag is None else {"if_match": etag}
        try:
            found = self._cloud.call(*_OBJECTS, "get_object", *self._where, key, **more)
        except OciCallError as error:
            if error.http_status not in _FAULTS:
                raise
            said = error.problems[0].what
            raise StoreError(_FAULTS[error.http_status], key, said) from error
        try:
            yield from found.raw.stream(_CHUNK, decode_content=False)
        except Exception as error:
            if not type(error).__module__.startswith(("requests", "urllib3")):
                raise
            raise StoreError(StoreFault.UNREACHABLE, key, str(error)) from error


def _entry(listed: Any) -> ObjectEntry:  # noqa: ANN401
    """An object as listings of other stores tell it: the ETag of an object in one part is its MD5."""
    changed = listed.time_modified
    return ObjectEntry(
        str(listed.name),
        int(listed.size or 0),
        _hexadecimal(listed.md5) or str(listed.etag or ""),
        0 if changed is None else int(changed.timestamp()) * 10**9,
        str(listed.storage_tier or "Standard").upper(),
    )


def _hexadecimal(md5: str | None) -> str | None:
    try:
        digest = base64.b64decode(md5 or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == 16 else None
