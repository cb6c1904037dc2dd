"""What a store of objects does for a repository, and how it fails.

Everything above speaks to `ObjectStore`; what loads a file range by range needs `RangeSource` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.repository.keys import shown
from gridwright.repository.references import ObjectReference
from gridwright.repository.upload_journal import UploadJournal


class StoreFault(StrEnum):
    """Why a store did not do what was asked."""

    NOT_THERE = "not there"
    CHANGED = "changed"
    """Another object, or another version, is there than was asked for; or one where none should be."""
    FORBIDDEN = "forbidden"
    ARCHIVED = "archived"
    """In a storage class that has to be restored before it can be read."""
    THROTTLED = "throttled"
    """It asks to slow down, and went on so for as long as was tried."""
    UNREACHABLE = "unreachable"
    """No answer, a broken connection, or errors of the server's own, each time it was tried."""
    DAMAGED = "damaged"
    """It gave other bytes than it has: too few, or with another checksum."""
    REFUSED = "refused"
    """Anything else that it says no to."""


REMEDIES: Mapping[StoreFault, str] = {
    StoreFault.NOT_THERE: "look whether somebody deleted it, or a life cycle rule expired it",
    StoreFault.CHANGED: "look who else writes to the bucket; the next export or import names both sides",
    StoreFault.FORBIDDEN: "look at the rights of these credentials, and at the policies of bucket and key",
    StoreFault.ARCHIVED: "restore it first: gridwright repo import --contents starts that with --restore",
    StoreFault.THROTTLED: "go on later, or with a lower --requests-per-second",
    StoreFault.UNREACHABLE: "look at the network and at the store; the command goes on where it stopped",
    StoreFault.DAMAGED: "try again; if it stays, the store or the way to it damages data",
    StoreFault.REFUSED: "look at what the store says",
}


class StoreError(GridwrightError):
    """A store did not do what was asked: which fault, with which object, and in the store's own words."""

    def __init__(self, fault: StoreFault, url: str, said: str = "") -> None:
        what = f"the object is {fault.value}" if fault in _OF_OBJECTS else f"the store is {fault.value}"
        if fault is StoreFault.FORBIDDEN:
            what = "access is forbidden"
        elif fault is StoreFault.REFUSED:
            what = "the store refused"
        elif fault is StoreFault.THROTTLED:
            what = "the store asks to slow down"
        super().__init__(
            Problem(what=f"{what}: {said}" if said else what, where=shown(url), remedy=REMEDIES[fault]),
            status=ExitStatus.ENVIRONMENT,
        )
        self.fault = fault
        self.url = url
        self.said = said


_OF_OBJECTS = frozenset({StoreFault.NOT_THERE, StoreFault.CHANGED, StoreFault.ARCHIVED, StoreFault.DAMAGED})


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One object of a listing. `last_modified_ns` is since 1970; stores give whole seconds."""

    key: str
    size: int
    etag: str
    last_modified_ns: int
    storage_class: str = "STANDARD"


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What a store says of one object without its content."""

    entry: ObjectEntry
    metadata: Mapping[str, str]
    """User metadata, without `x-amz-meta-`."""
    version_id: str | None = None
    crc64: str | None = None
    """CRC-64/NVME of the whole object in 16 hexadecimal digits, where the store has it."""
    parts: int | None = None
    """Parts of its upload, where the ETag says so."""
    has_md5: bool = False
    """Whether the ETag is the MD5 of the content, or of the MD5s of its parts."""
    is_restored: bool = False
    """Whether a copy of an archived object can be read now."""
    is_being_restored: bool = False


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """What a store said when it took an object. A None is what it did not say."""

    etag: str
    version_id: str | None
    crc64: str | None
    stored_ns: int = 0
    """Since 1970, by the store's clock: when it was written at the latest, to a second; 0 if unsaid."""


@dataclass(frozen=True, slots=True)
class WriteCondition:
    """When an object is written: only where none is there, or only over one with this ETag."""

    none_there: bool = False
    etag: str | None = None


ANY = WriteCondition()


class Upload(Protocol):
    """The content of an object to be: read once in order by `readinto`, or in ranges by `read_at`.

    What raises has the upload given up: the object is then not made, and one that is there stays.
    """

    @property
    def size(self) -> int:
        """Bytes in all."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is content for; 0 at its end."""

    def read_at(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer from an offset. Any thread may call it."""

    def check(self) -> None:
        """Raise where what was read in ranges may not be one content; before the last byte leaves."""

    def sent(self, crc64: int) -> None:
        """Take note that all of it was read in ranges, with this CRC-64/NVME."""


Progress = Callable[[int], None]
"""Told of bytes as they have been moved; called from other threads."""


class RangeSource(Protocol):
    """Gives ranges of objects."""

    def read_range(self, reference: ObjectReference, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset` of the very object that is referred to, never of another one.

        Raises StoreError with the fault: NOT_THERE, CHANGED (another ETag or size), FORBIDDEN, ARCHIVED,
        THROTTLED, UNREACHABLE, DAMAGED (fewer bytes than it says); a ValueError for a range outside of it.
        """


@dataclass(slots=True)
class RequestCount:
    """Requests by kind, for prices and tests."""

    by_kind: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str) -> None:
        """Count one."""
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1


class ReadableStore(Protocol):
    """One bucket, to be read. All calls are bounded in time and tries, and raise StoreError."""

    @property
    def requests(self) -> RequestCount:
        """Requests so far."""

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectEntry]:
        """All objects whose keys begin so, in the order of their keys, a page in memory at a time."""

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """What the store says of an object, in the background."""

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """The whole content of a small object."""

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """Write the content of the very object that is referred to into an open, empty file.

        Goes on in the background; the descriptor stays open until it is done. The result is the CRC-64/NVME
        of what was written, in 16 hexadecimal digits, or None where it was not taken on the way.
        """


class ObjectStore(RangeSource, ReadableStore, Protocol):
    """One bucket. All calls are bounded in time and tries, raise StoreError, and may come from any thread."""

    @property
    def place(self) -> str:
        """Which store it is, the same for all that reach it: a partition of AWS, or a host and port."""

    @property
    def bucket(self) -> str:
        """The bucket's name."""

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition = ANY
    ) -> WrittenObject:
        """Make an object of a few bytes. Raises a CHANGED where the condition does not hold."""

    def send(
        self,
        key: str,
        upload: Upload,
        metadata: Mapping[str, str],
        condition: WriteCondition = ANY,
        progress: Progress | None = None,
    ) -> Future[WrittenObject]:
        """Make an object of an upload, in the background: all at once or not at all."""

    def begin_uploads(self, journal: UploadJournal) -> None:
        """Abort what a killed command has begun in parts, and note what is begun from now on.

        Raises StoreError, OSError.
        """

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> WrittenObject:
        """Make an object of another one of the bucket, with these metadata; no content is moved."""

    def delete(self, key: str) -> None:
        """Delete an object; done where there is none. In a bucket with versions, older ones stay."""

    def restore(self, key: str, version_id: str | None, days: int, tier: str) -> None:
        """Have an archived object made readable for some days; done where that is under way."""

    def close(self) -> None:
        """Give up what is under way."""
