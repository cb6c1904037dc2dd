"""What a store of objects does for a repository, and how it fails.

Everything above speaks to `ObjectStore`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from gridwright import _native
from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.repository.keys import shown
from gridwright.repository.references import ObjectReference
from gridwright.repository.state_directory import UploadJournal


def crc64(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The CRC of bytes that follow others with the CRC `before`."""
    return _native.crc64(data, before)


def crc64_of_pieces(pieces: Mapping[int, tuple[int, int]]) -> int:
    """The CRC of a whole, of the CRC and the length of each piece by its place in the order."""
    whole = 0
    for number, place in enumerate(sorted(pieces)):
        # To put two together takes longer than to count some kilobytes.
        whole = _native.combine_crc64(whole, *pieces[place]) if number else pieces[place][0]
    return whole


class StoreFault(StrEnum):
    """Why a store did not do what was asked."""

    NOT_THERE = "not there"
    NO_BUCKET = "no bucket"
    CHANGED = "changed"
    """Another object, or another version, is there than was asked for; or one where none should be."""
    FORBIDDEN = "forbidden"
    ARCHIVED = "archived"
    """In a storage class that has to be restored before it can be read."""
    CONFLICT = "conflict"
    """Another request for the same object is under way, and was each time it was tried."""
    THROTTLED = "throttled"
    """It asks to slow down, and went on so for as long as was tried."""
    UNREACHABLE = "unreachable"
    """No answer, a broken connection, or errors of the server's own, each time it was tried."""
    DAMAGED = "damaged"
    """It gave other bytes than it has: too few, or with another checksum."""
    UNSUPPORTED = "unsupported"
    """It does not know what was asked for, or answers in another way than S3 does."""
    REFUSED = "refused"
    """Anything else that it says no to."""


REMEDIES: Mapping[StoreFault, str] = {
    StoreFault.NOT_THERE: "see whether bucket and prefix are right, or whether somebody or a rule deleted it",
    StoreFault.NO_BUCKET: "look at its name, at the endpoint and at whose credentials these are, or make the "
    "bucket: no command does",
    StoreFault.CHANGED: "look who else writes to the bucket; the next export or import names both sides",
    StoreFault.FORBIDDEN: "look at the rights of these credentials, and at the policies of bucket and key",
    StoreFault.ARCHIVED: "restore it first: gridwright repo import --contents starts that with --restore",
    StoreFault.CONFLICT: "run the command again: what else writes to this object has to end first",
    StoreFault.THROTTLED: "go on later, or with a lower --requests-per-second",
    StoreFault.UNREACHABLE: "look at the network and at the store; the command goes on where it stopped",
    StoreFault.DAMAGED: "try again; if it stays, the store or the way to it damages data",
    StoreFault.UNSUPPORTED: "see whether the endpoint is an S3 store at all, and no page before it; if "
    "it is, it lacks what a repository needs (gridwright help repository): use a later release, or another",
    StoreFault.REFUSED: "look up what the store means by that status and code",
}
ACTIONS: Mapping[str, str] = {
    "HeadObject": "s3:GetObject (and s3:ListBucket: without it, S3 forbids to ask for what is not there)",
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CopyObject": "s3:GetObject and s3:PutObject",
    "DeleteObject": "s3:DeleteObject",
    "ListObjectsV2": "s3:ListBucket",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "RestoreObject": "s3:RestoreObject",
}
"""What allows an operation (Service Authorization Reference, "Actions, resources, and condition keys for
Amazon S3"; Amazon S3 API Reference, HeadObject)."""


class StoreError(GridwrightError):
    """A store did not do what was asked: which fault, with which object, and in the store's own words.

    `operation` is S3's name of what was asked, and `status` that of its answer over HTTP, if there was one.
    `remedy` is what to do, where the answer tells more of that than the fault does.
    """

    def __init__(
        self,
        fault: StoreFault,
        url: str,
        said: str = "",
        operation: str = "",
        status: int = 0,
        remedy: str | None = None,
    ) -> None:
        answer = ", ".join([*([operation] if operation else []), *([f"HTTP {status}"] if status else [])])
        what = _WHAT[fault] + (f": {said}" if said else "") + (f" ({answer})" if answer else "")
        if remedy is None and fault is StoreFault.FORBIDDEN and operation in ACTIONS:
            remedy = f"allow these credentials {ACTIONS[operation]}; policies of bucket and key count, too"
            if operation == "HeadObject" and not said:
                remedy = f"look whether access key and secret are right: no HEAD is told why; then {remedy}"
        super().__init__(
            Problem(what=what, where=shown(url), remedy=remedy or REMEDIES[fault]),
            status=ExitStatus.ENVIRONMENT,
        )
        self.fault = fault
        self.url = url
        self.said = said
        self.operation = operation


_WHAT: Mapping[StoreFault, str] = {
    StoreFault.NOT_THERE: "the object is not there",
    StoreFault.NO_BUCKET: "the bucket is not there",
    StoreFault.CHANGED: "the object is changed",
    StoreFault.FORBIDDEN: "access is forbidden",
    StoreFault.ARCHIVED: "the object is archived",
    StoreFault.CONFLICT: "another request for the object is under way",
    StoreFault.THROTTLED: "the store asks to slow down",
    StoreFault.UNREACHABLE: "the store is unreachable",
    StoreFault.DAMAGED: "the object is damaged",
    StoreFault.UNSUPPORTED: "the store does not do what S3 does",
    StoreFault.REFUSED: "the store refused",
}


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


class SentSum(StrEnum):
    """The checksum that goes with each content that is sent: all of it is read once before."""

    NONE = "none"
    CRC64 = "CRC-64/NVME"
    MD5 = "MD5"
    WRONG = "a wrong CRC-64/NVME"
    """Tries whether a store looks at it."""


@dataclass(frozen=True, slots=True)
class StoreAbilities:
    """What a trial has shown of a store (`probing.py`); without one, what is safe with all of them."""

    copies_if_none_there: bool = False
    """CopyObject heeds `If-None-Match: *` and `If-Match` for the object that it makes."""
    ends_parts_if_none_there: bool = False
    """CompleteMultipartUpload heeds `If-None-Match: *`."""
    makes_anew: bool = False
    """`If-None-Match: *` lets an object be made where one was deleted, in a bucket with versions, too."""
    sent_sum: SentSum = SentSum.NONE
    keeps_backslashes: bool = True
    """A key has the backslashes that were written; else it is another key than that of the file."""
    says_crc64: bool = True
    """What takes an object says its CRC-64/NVME; else it is asked for, with the object's other attributes."""
    makes_directories: bool = False
    """It has a directory, and no object of it, wherever something lies below one."""


UNREADABLE = ""
"""The ETag of an object of which a listing says what makes no sense, such as a size of -5 bytes."""
PAGE = 1000
"""Objects of one page of a listing: the most that S3 gives."""


class Upload(Protocol):
    """The content of an object to be, read in ranges.

    What raises has the upload given up: the object is then not made, and one that is there stays.
    """

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def open_file(self) -> tuple[int, tuple[int, int, int, int]] | None:
        """The descriptor of a file that has it, and its size, mtime, ctime and inode; None for none."""

    def read_at(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer from an offset. Any thread may call it."""

    def check(self) -> None:
        """Raise where what was read in ranges may not be one content; before the last byte leaves."""

    def sent(self, crc64: int) -> None:
        """Take note that all of it was read in ranges, with this CRC-64/NVME."""


@dataclass(slots=True)
class SmallContent:
    """An upload of a few bytes: the target of a link, or nothing."""

    data: bytes
    open_file: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.data)

    def read_at(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer."""
        buffer[:] = self.data[offset : offset + len(buffer)]

    def check(self) -> None:
        """Nothing changes it."""

    def sent(self, crc64: int) -> None:
        """Nobody asks for it."""


Progress = Callable[[int], None]
"""Told of bytes as they have been moved; called from other threads."""


@dataclass(slots=True)
class RequestCount:
    """Requests by kind, for prices and tests."""

    by_kind: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def add(self, kind: str, count: int = 1) -> None:
        """Count so many; from any thread."""
        with self._lock:
            self.by_kind[kind] = self.by_kind.get(kind, 0) + count


class ReadableStore(Protocol):
    """One bucket, to be read. All calls are bounded in time and tries, and raise StoreError."""

    @property
    def requests(self) -> RequestCount:
        """Requests so far."""

    def list(self, prefix: str, page: int = PAGE) -> Iterator[ObjectEntry]:
        """All objects whose keys begin so, a page of so many in memory at a time.

        S3 has them in the order of the bytes of their keys. Other stores need not (`probing.py`).
        """

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


FetchedFile = tuple[int | None, str | None]
"""The descriptor of a file that was made for a content, and the CRC that `ReadableStore.fetch` gives."""


class ObjectStore(ReadableStore, Protocol):
    """One bucket. All calls are bounded in time and tries, raise StoreError, and may come from any thread."""

    @property
    def place(self) -> str:
        """Which store it is, the same for all that reach it: a partition of AWS, or a host and port."""

    @property
    def bucket(self) -> str:
        """The bucket's name."""

    abilities: StoreAbilities
    """What it can do, as far as it is known."""

    @property
    def software(self) -> str:
        """What the store says it is (the header `Server` of its answers); empty where it says nothing."""

    def fetch_new(
        self, reference: ObjectReference, directory: int, progress: Progress | None = None
    ) -> Future[FetchedFile]:
        """As `fetch`, into a new file without a name in an open directory (`extended.open_nameless`).

        Raises OSError, as the future does.
        """

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
        *,
        in_parts: bool = False,
    ) -> Future[WrittenObject]:
        """Make an object of an upload, in the background: all at once or not at all.

        Large ones go in parts, and small ones where `in_parts` says so, to try what the store itself makes of
        the condition then.
        """

    def begin_uploads(self, journal: UploadJournal) -> None:
        """Abort what a killed command has begun in parts, and note what is begun from now on.

        Raises StoreError, OSError.
        """

    def copy(self, source: ObjectReference, key: str, metadata: Mapping[str, str]) -> Future[WrittenObject]:
        """Make an object of another one of the bucket, with these metadata, in the background.

        No content is moved. It is made where none is, or of itself while it is the known one. The future's
        exception is an UNSUPPORTED where the store would copy over any.
        """

    def delete(self, key: str, etag: str | None = None) -> None:
        """Delete an object; done where there is none. In a bucket with versions, older ones stay.

        With `etag`, only while it has that: raises a CHANGED. Stores that do not know this condition delete
        what is there.
        """

    def restore(self, key: str, version_id: str | None, days: int, tier: str) -> bool:
        """Have an archived object made readable for some days; whether that begins now.

        It does not where it is under way, or the object can be read by now.
        """

    def close(self) -> None:
        """Give up what is under way."""
