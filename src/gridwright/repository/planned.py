"""The store of a dry run: it reads what a run reads, and takes note of what a run would write.

So a plan is made by the very steps that carry it out. What would be written is held against the listing of
this run, as a store holds a condition against its object; no content is read or sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import ClassVar

from gridwright.repository.file_clock import UNKNOWN
from gridwright.repository.forecast import RANGE_BYTES
from gridwright.repository.known import Known
from gridwright.repository.object_format import PERMISSIONS
from gridwright.repository.probing import LIKELY, recall_store
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.parts import MOST_TO_COPY, PART_BYTES, copied_part_count, part_count
from gridwright.repository.settings import OpenRepository
from gridwright.repository.state_directory import UploadJournal
from gridwright.repository.store import (
    ANY,
    PAGE,
    UNREADABLE,
    FetchedFile,
    ObjectEntry,
    ObjectHead,
    ObjectStore,
    Progress,
    RequestCount,
    StoreAbilities,
    StoreError,
    StoreFault,
    Upload,
    WriteCondition,
    WrittenObject,
)

ETAG = "planned"
"""That of what would be sent."""
_ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects have to be restored first (Amazon S3 API Reference, RestoreObject)."""


@dataclass(slots=True)
class UnreadContent:
    """The content of a file that would be sent, of which nothing is read."""

    status: os.stat_result
    ctime_ns: int = UNKNOWN
    open_file: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.status.st_size

    def read_at(self, buffer: memoryview, offset: int) -> None:
        """Not in a dry run."""
        raise AssertionError("a dry run sends nothing")

    def check(self) -> None:
        """Nothing was read that could be torn."""

    def sent(self, crc64: int) -> None:
        """Nobody asks for it."""


class PlannedStore:
    """A store that only looks, in place of another one; `requests` are those of the run, which it counts.

    What both ask counts as it is asked. What is asked in place of a write does not: the write does.
    """

    def __init__(self, store: ObjectStore, known: Known, starts: Sequence[str]) -> None:
        """`starts` are how the keys begin that the listing of this run has."""
        self._store = store
        self._known = known
        self._starts = tuple(starts)
        self.requests: RequestCount = store.requests
        self.abilities: StoreAbilities = store.abilities
        self.place, self.bucket, self.software = store.place, store.bucket, store.software

    @classmethod
    def in_place_of(cls, opened: OpenRepository, starts: Sequence[str]) -> PlannedStore:
        """That of a repository, for what it was when it was last tried. Its state has to be a copy."""
        if not opened.known.looks:
            raise AssertionError("a dry run notes nothing, so that it needs a copy of what is known")
        planned = cls(opened.store, opened.known, starts)
        if recall_store(opened):
            planned.abilities = opened.store.abilities
        else:
            makes = bool(opened.keys.start) and planned._has_made(opened.keys.start)
            planned.abilities = replace(LIKELY, makes_directories=makes)
        return planned

    def _has_made(self, directory: str) -> bool:
        """Whether the store has a directory that it lists no object of, as manifests lie below it."""
        if self._known.listed(directory) is not None:
            return False
        try:
            return PERMISSIONS not in self._look(directory).metadata
        except StoreError:
            return False

    def list(self, prefix: str, page: int = PAGE) -> Iterator[ObjectEntry]:
        """As the store has it."""
        return self._store.list(prefix, page)

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """As the store has it."""
        return self._store.head(key, version_id)

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """As the store has it."""
        return self._store.get(key, version_id)

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """Whether the content can be read; none is. `descriptor` is of no file."""
        answer: Future[str | None] = Future()
        self._count("get", max(1, -(-reference.size // RANGE_BYTES)))
        listed = self._known.listed(reference.key)
        if (
            listed is not None
            and listed[3] in _ARCHIVES
            and not self._look(reference.key, reference.version_id).is_restored
        ):
            answer.set_exception(StoreError(StoreFault.ARCHIVED, reference.key))
        else:
            answer.set_result(None)
        return answer

    def fetch_new(
        self, reference: ObjectReference, directory: int, progress: Progress | None = None
    ) -> Future[FetchedFile]:
        """Not in a dry run."""
        raise AssertionError("a dry run makes nothing")

    def _look(self, key: str, version_id: str | None = None) -> ObjectHead:
        """What the store says of an object that a run does not ask for."""
        self._count("head", -1)
        return self._store.head(key, version_id).result()

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition = ANY
    ) -> WrittenObject:
        """Nothing but files is planned."""
        raise AssertionError(f"a dry run writes no {key}")

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
        """Whether the condition holds."""
        answer: Future[WrittenObject] = Future()
        is_whole = upload.size <= PART_BYTES
        # One of parts is begun and ended, too, and looked at before.
        self._count("put", 1 if is_whole else part_count(upload.size) + 2)
        self._count("head", (not is_whole and condition != ANY))
        try:
            self._check(key, condition)
        except StoreError as error:
            answer.set_exception(error)
        else:
            # Of a file that was sent the CRC is asked for where the store does not say it.
            self._count("head", isinstance(upload, UnreadContent) and not self.abilities.says_crc64)
            answer.set_result(WrittenObject(ETAG, None, None))
        return answer

    def begin_uploads(self, journal: UploadJournal) -> None:
        """Nothing is begun."""

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> Future[WrittenObject]:
        """Whether the store can, and the source is the known one."""
        answer: Future[WrittenObject] = Future()
        able, is_itself = self.abilities, key == source.key
        if not (is_itself or able.copies_if_none_there or (source.size and able.ends_parts_if_none_there)):
            said = "it copies over what is there"
            answer.set_exception(StoreError(StoreFault.UNSUPPORTED, key, said, "CopyObject"))
            return answer
        is_whole = source.size <= MOST_TO_COPY and (is_itself or able.copies_if_none_there)
        self._count("copy", 1 if is_whole else copied_part_count(source.size) + 2)
        self._count("head", is_itself and not is_whole)
        try:
            self._check(source.key, WriteCondition(etag=source.etag))
        except StoreError as error:
            answer.set_exception(error)
        else:
            answer.set_result(WrittenObject(source.etag, None, None))
        return answer

    def delete(self, key: str, etag: str | None = None) -> None:
        """Whether the object is the known one."""
        self._count("delete")

    def restore(self, key: str, version_id: str | None, days: int, tier: str) -> bool:
        """Whether that would begin now."""
        head = self._store.head(key, version_id).result()
        begins = not (head.is_being_restored or head.is_restored)
        self._count("restore", begins)
        return begins

    def close(self) -> None:
        """Give up what is under way."""
        self._store.close()

    def _count(self, kind: str, requests: int = 1) -> None:
        if requests:
            self.requests.add(kind, requests)

    def _check(self, key: str, condition: WriteCondition) -> None:
        """Raise StoreError where a condition does not hold."""
        if condition == ANY:
            return
        etag = self._etag(key)
        if condition.none_there:
            if etag is not None:
                raise StoreError(StoreFault.CHANGED, key)
        elif etag is None:
            raise StoreError(StoreFault.NOT_THERE, key)
        elif etag != condition.etag:
            raise StoreError(StoreFault.CHANGED, key)

    def _etag(self, key: str) -> str | None:
        """That of an object; None where none is."""
        listed = self._known.listed(key)
        if listed is not None and listed[1] != UNREADABLE:
            return listed[1]
        # Some stores list no directories of their own; nothing else that the listing has not is there.
        may_be_unlisted = key.endswith("/") and self._known.has_keys_below(key.rstrip("/"))
        if listed is None and key.startswith(self._starts) and not may_be_unlisted:
            return None
        try:
            return self._look(key).entry.etag
        except StoreError as error:
            if error.fault is StoreFault.NOT_THERE:
                return None
            raise
