"""What a file carries of its object: in an extended attribute, so that it stays with the file.

A file is its own (no attribute), exported (this content is that object's), or a name only: it has the size
and the attributes of its object, and no content yet. The manifest of the repository says the same; where both
disagree, the file's own word is newer.

The attribute is one JSON value with a format number. It is `trusted.gridwright.repository` for root, which
users can neither see nor forge, and `user.gridwright.repository` for others. Writing it changes the file's
ctime and nothing else.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from gridwright.repository.file_clock import is_stored_as
from gridwright.repository.keys import bucket_of

FORMAT = 1
"""Format of the value; a reader refuses a newer one."""
NAME = "gridwright.repository"
_OF_ROOT, _OF_USERS = f"trusted.{NAME}", f"user.{NAME}"

_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)
_ABSENT = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP})


class ContentPlace(StrEnum):
    """What of a file's content is here."""

    EXPORTED = "exported"
    """All of it: the object's content, as long as the file was not changed."""
    NAME_ONLY = "name-only"
    """Nothing, or not all of it: reading it gives zeros unless somebody loads it first."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """One object, or one version of it, as it was when the file was made equal to it."""

    bucket_url: str
    """`s3://bucket`, with the prefix of the repository where it has one."""
    key: str
    """The whole key, with the prefix."""
    etag: str
    """As the store gives it, without quotes."""
    version_id: str | None
    """None in a bucket without versions."""
    size: int
    """Bytes of the object."""

    @property
    def bucket(self) -> str:
        """The bucket alone."""
        return bucket_of(self.bucket_url)


_REFERENCE = tuple(each.name for each in fields(ObjectReference))


@dataclass(frozen=True, slots=True)
class FileState:
    """What a file's attribute says: which object, and whether its content is here.

    `mtime_ns` is that of the file when this became true: a file with another size or mtime was changed since.
    `crc64` is the CRC-64/NVME of the content, where it is known, in 16 hexadecimal digits.
    """

    reference: ObjectReference
    presence: ContentPlace
    mtime_ns: int
    crc64: str | None = None
    had_content: bool = False
    """Of a name only: it was released here, and is no name that was imported. Its layout is its own then."""

    @property
    def is_name_only(self) -> bool:
        """Whether content is missing."""
        return self.presence is ContentPlace.NAME_ONLY

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Whether the file with this status still has the size and the mtime that it had then."""
        return status.st_size == self.reference.size and is_stored_as(self.mtime_ns, status.st_mtime_ns)

    def is_of(self, etag: str, status: os.stat_result) -> bool:
        """The same, and whether its object is the one with this ETag."""
        return self.reference.etag == etag and self.is_unchanged(status)


class StateError(ValueError):
    """The attribute is there and cannot be read: damaged, or of a newer release."""


def attribute_name() -> str:
    """The name of the attribute for who runs this: root's is out of reach of users."""
    return _OF_USERS if os.geteuid() else _OF_ROOT


def encode(state: FileState) -> bytes:
    """The value of the attribute."""
    document = {
        "format": FORMAT,
        "presence": state.presence.value,
        "mtime_ns": state.mtime_ns,
        "crc64": state.crc64,
        **({"had_content": True} if state.had_content else {}),
        "object": {name: getattr(state.reference, name) for name in _REFERENCE},
    }
    return _COMPACT.encode(document).encode()


def decode(value: bytes) -> FileState:
    """What a value of the attribute says. Raises StateError."""
    try:
        document = json.loads(value)
        if document["format"] != FORMAT:
            raise StateError(f"it has format {document['format']!r}, and this release reads {FORMAT}")
        return FileState(
            reference=_reference(document["object"]),
            presence=ContentPlace(document["presence"]),
            mtime_ns=_typed(document["mtime_ns"], int),
            crc64=_typed(document["crc64"], (str, type(None))),
            had_content=document.get("had_content") is True,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"it is damaged ({type(error).__name__}: {error})") from error


def _reference(document: Any) -> ObjectReference:  # noqa: ANN401 - JSON from outside
    return ObjectReference(
        bucket_url=_typed(document["bucket_url"], str),
        key=_typed(document["key"], str),
        etag=_typed(document["etag"], str),
        version_id=_typed(document["version_id"], (str, type(None))),
        size=_typed(document["size"], int),
    )


def _typed(value: Any, kind: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind}")
    return value


def write_state(file: int | str | bytes, state: FileState) -> None:
    """Write the attribute of a file, by descriptor or by path; a symbolic link is never followed.

    Raises OSError: ENOTSUP where the file system has no extended attributes, and EPERM for users on links.
    """
    os.setxattr(file, attribute_name(), encode(state), **_unfollowed(file))


def read_state(file: int | str | bytes) -> FileState | None:
    """What a file's attribute says, by descriptor or by path; None where it has none or cannot have one.

    A symbolic link is never followed. Raises OSError, and StateError for an attribute that cannot be read.
    """
    try:
        value = os.getxattr(file, attribute_name(), **_unfollowed(file))
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise
    return decode(value)


def clear_state(file: int | str | bytes) -> None:
    """Take the attribute away, if there is one. A symbolic link is never followed. Raises OSError."""
    try:
        os.removexattr(file, attribute_name(), **_unfollowed(file))
    except OSError as error:
        if error.errno not in _ABSENT:
            raise


def can_have_state(directory: str | bytes) -> bool:
    """Whether files of this directory's file system can have the attribute, by whoever runs this."""
    try:
        os.getxattr(directory, attribute_name(), follow_symlinks=False)
    except OSError as error:
        return error.errno == errno.ENODATA
    return True


def _unfollowed(file: int | str | bytes) -> dict[str, bool]:
    # Python refuses `follow_symlinks` beside a descriptor, which is the file itself.
    return {} if isinstance(file, int) else {"follow_symlinks": False}
