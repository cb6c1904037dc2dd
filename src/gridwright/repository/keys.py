"""Paths of files and keys of objects, each made of the other, with nothing lost.

A name in UTF-8 is its own part of the key, as FSx for Lustre has it. What is not UTF-8 is escaped, and so is
what XML 1.0 cannot have, and stores lose in their listings (control characters but for tab and line feed,
U+FFFE, U+FFFF): each byte is `␛` (U+241B) and two digits, such as `␛ff`. Where a name has itself a `␛`
before two such digits, the `␛` is escaped byte by byte. A key that this rule does not write is refused, so
that no two keys are one path: `path_of(key_of(path)) == path` and `key_of(path_of(key)) == key`, wherever
neither is refused.
"""

from __future__ import annotations

import re

from gridwright.repository.below import PART, is_part

LONGEST_KEY = 1024
"""Bytes of a key in UTF-8 (Amazon S3 User Guide, "Naming Amazon S3 objects")."""
LONGEST_NAME = 255
"""Bytes of one name: NAME_MAX of ext4, XFS, Lustre and NFS."""
RESERVED = ".gridwright"
"""The directory below a repository, and the prefix below its bucket's, that are Gridwright's own."""
TRASH = "trash"
"""The directory there that holds what was taken out of a library."""
MANIFEST = "manifest.parquet"
LEASE = "lease"
"""The object there that says of all others what a listing does not."""

_ESCAPE = "\u241b"
_WRITTEN = re.compile("\u241b([0-9a-f]{2})")
_AMBIGUOUS = re.compile("\u241b(?=[0-9a-f]{2})")
_PLAIN = re.compile(r"(?:[ !#-\-0-\[\]-~][ -.0-\[\]-~]{0,254}(?:/(?!\Z)|\Z))+", re.ASCII)
"""A path that is its own key: printable ASCII without a backslash, and no name begins with a dot."""
_INVALID = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff\udc80-\udcff]")
"""What XML cannot have, and what bytes that are no UTF-8 become in a `str` (PEP 383)."""


class KeyRefusal(ValueError):
    """A path or a key that has no partner; says why. `what` is fit to be shown."""

    def __init__(self, name: bytes | str, reason: str) -> None:
        self.what = shown(name)
        self.reason = reason
        super().__init__(f"{self.what}: {reason}")


def shown(name: bytes | str) -> str:
    """A path or a key for people: on one line, whatever bytes it has."""
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def bucket_of(url: str) -> str:
    """The bucket of `s3://bucket/prefix`; of `oci://bucket@namespace/prefix` with its namespace."""
    return _place_of(url).partition("/")[0]


def prefix_of(url: str) -> str:
    """The prefix of `s3://bucket/prefix`, which may be empty."""
    return _place_of(url).partition("/")[2]


def _place_of(url: str) -> str:
    return url.partition("://")[2] if "://" in url else url


class Keys:
    """The rule for one bucket's prefix, which is empty or has no `/` at either end."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.strip("/")
        self.takes_backslashes = True
        """Whether the store keeps them (`probing.py`)."""
        self._start = f"{self.prefix}/" if self.prefix else ""

    @property
    def start(self) -> str:
        """How all keys of the repository begin."""
        return self._start

    def own(self, name: str) -> str:
        """The key of something of Gridwright's own, such as a manifest."""
        return f"{self._start}{RESERVED}/{name}"

    def is_own(self, key: str) -> bool:
        """Whether a key is Gridwright's own, and no file's."""
        return key.startswith(f"{self._start}{RESERVED}/")

    def key_of(self, path: bytes, *, is_directory: bool = False) -> str:
        """The key of a path, relative to the repository's directory and without `/` at either end.

        Raises KeyRefusal where it would be too long, or would be Gridwright's own.
        """
        if (
            _PLAIN.fullmatch(text := path.decode("latin-1"))
            and len(self._start) + len(text) < LONGEST_KEY // 4
        ):
            return f"{self._start}{text}/" if is_directory else self._start + text
        parts = path.split(b"/")
        for part in parts:
            if reason := _wrong_name(part):
                raise KeyRefusal(path, reason)
        if parts[0] == RESERVED.encode():
            raise KeyRefusal(path, f"{RESERVED} is Gridwright's own")
        if b"\\" in path and not self.takes_backslashes:
            raise KeyRefusal(path, "has a backslash, which this store takes for a slash (rename it)")
        key = self._start + "/".join(map(_escaped, parts)) + ("/" if is_directory else "")
        if (length := len(key.encode())) > LONGEST_KEY:
            raise KeyRefusal(path, f"its key has {length} bytes, and {LONGEST_KEY} is the most")
        return key

    def path_of(self, key: str) -> tuple[bytes, bool]:
        """The path of a key, and whether it is that of a directory.

        Raises KeyRefusal for one that is no path below the repository's directory, or that another key is.
        """
        if not key.startswith(self._start):
            raise KeyRefusal(key, f"does not begin with {self._start}")
        below = key[len(self._start) :]
        is_directory = below.endswith("/")
        plain = below.removesuffix("/")
        if _PLAIN.fullmatch(plain) and len(key) < LONGEST_KEY // 4:
            return plain.encode(), is_directory
        try:
            length = len(key.encode())
        except UnicodeEncodeError:
            raise KeyRefusal(key, "is not UTF-8") from None
        if length > LONGEST_KEY:
            raise KeyRefusal(key, f"has {length} bytes, and {LONGEST_KEY} is the most")
        parts = plain.split("/")
        names = [_unescaped(part) for part in parts]
        for part, name in zip(parts, names, strict=True):
            if reason := _wrong_name(name):
                raise KeyRefusal(key, reason)
            if _escaped(name) != part:
                raise KeyRefusal(key, "has an escape that needs none, or needs one that it has not")
        if parts[0] == RESERVED:
            raise KeyRefusal(key, f"{RESERVED} is Gridwright's own")
        return b"/".join(names), is_directory


def _wrong_name(name: bytes) -> str | None:
    """Why a name cannot be one of a path, or None."""
    if not name:
        return "has an empty name (it begins with / or has // in it)"
    if name in (b".", b".."):
        return f"has the name {name.decode()}, which leads elsewhere"
    if b"\0" in name:
        return "has a NUL byte"
    if b"/" in name:
        return "has an escaped /"
    if len(name) > LONGEST_NAME:
        return f"has a name of {len(name)} bytes, and {LONGEST_NAME} is the most"
    return f"has a name that begins with {PART.decode()}, as Gridwright's own do" if is_part(name) else None


def _escaped(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    if _ESCAPE in text:
        text = _AMBIGUOUS.sub(_bytewise(_ESCAPE), text)
    return _INVALID.sub(lambda found: _bytewise(found[0]), text)


def _bytewise(text: str) -> str:
    return "".join(f"{_ESCAPE}{byte:02x}" for byte in text.encode("utf-8", "surrogateescape"))


def _unescaped(part: str) -> bytes:
    if _ESCAPE not in part:
        return part.encode()
    pieces = _WRITTEN.split(part)
    # Text and the digits of an escape take turns.
    return b"".join(
        bytes.fromhex(piece) if place % 2 else piece.encode() for place, piece in enumerate(pieces)
    )
