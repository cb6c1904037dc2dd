"""What an object carries of its file: the user metadata of FSx for Lustre, both ways, and nothing of its own.

DataSync, S3 File Gateway and Amazon File Cache read and write the same. Sources: FSx for Lustre User Guide,
"POSIX metadata support for data repositories"; DataSync User Guide, "Understanding how DataSync handles file
and object metadata".
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

PERMISSIONS, OWNER, GROUP = "file-permissions", "file-owner", "file-group"
ACCESSED, MODIFIED = "file-atime", "file-mtime"
KEYS = (PERMISSIONS, OWNER, GROUP, ACCESSED, MODIFIED)
"""Names of the user metadata, after `x-amz-meta-`."""
DEFAULT_PERMISSIONS = 0o755
"""What FSx gives a file whose object says nothing, with root as owner and group."""
LONGEST_TARGET = 4095
"""Bytes of a symbolic link's target: PATH_MAX of Linux without the NUL."""

_MODE = re.compile(r"0*([0-7]{1,7})", re.ASCII)
_ID = re.compile(r"[0-9]{1,10}", re.ASCII)
_TIME = re.compile(r"(-?[0-9]{1,20})(ns)?", re.ASCII)
MOST_ID = 2**32 - 2
"""The id after it means "leave it as it is" to chown."""
LATEST_NS = 2**63 - 1
"""Of times, since 1970."""
_NS_IN_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FileAttributes:
    """What of a file travels with its object. Times are nanoseconds since 1970; `mode` has the type."""

    mode: int
    uid: int
    gid: int
    atime_ns: int
    mtime_ns: int

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a file with content."""
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def permissions(self) -> int:
        """The mode without the type, as chmod takes it."""
        return stat.S_IMODE(self.mode)


def portable_mode(mode: int) -> int:
    """A mode as it travels: without setuid, as with FSx, and on files without setgid, which is as much.

    On a directory setgid says whose group new files have, and gives nobody the rights of another one.
    """
    dropped = stat.S_ISUID if stat.S_ISDIR(mode) else stat.S_ISUID | stat.S_ISGID
    return stat.S_IFMT(mode) | (stat.S_IMODE(mode) & ~dropped)


def metadata_of(attributes: FileAttributes) -> dict[str, str]:
    """The user metadata of the object of a file, a directory or a symbolic link.

    Raises ValueError for any other type, which has no object.
    """
    if stat.S_IFMT(attributes.mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise ValueError("only files, directories and symbolic links have objects")
    return {
        PERMISSIONS: f"0{portable_mode(attributes.mode):06o}",
        OWNER: str(attributes.uid),
        GROUP: str(attributes.gid),
        ACCESSED: f"{attributes.atime_ns}ns",
        MODIFIED: f"{attributes.mtime_ns}ns",
    }


@dataclass(frozen=True, slots=True)
class ReadAttributes:
    """What metadata say of a file, and which of them could not be read and were left aside."""

    attributes: FileAttributes
    problems: tuple[str, ...] = ()


def attributes_of(
    metadata: Mapping[str, str],
    *,
    is_directory: bool,
    last_modified_ns: int,
    owner: tuple[int, int] = (0, 0),
) -> ReadAttributes:
    """The attributes of the file of an object.

    What is missing is as FSx has it: 0755, root, root, or another `owner`; times are those of the object. A
    key that ends in `/` is a directory whatever its mode says. What makes no sense is named, and counts as
    missing.
    """
    lower = {name.lower(): value.strip() for name, value in metadata.items()}
    problems: list[str] = []
    mode = _mode(lower.get(PERMISSIONS), is_directory, problems)
    modified = _time(MODIFIED, lower, last_modified_ns, problems)
    attributes = FileAttributes(
        mode=mode,
        uid=_id(OWNER, lower, owner[0], problems),
        gid=_id(GROUP, lower, owner[1], problems),
        atime_ns=_time(ACCESSED, lower, modified, problems),
        mtime_ns=modified,
    )
    return ReadAttributes(attributes, tuple(problems))


def _mode(text: str | None, is_directory: bool, problems: list[str]) -> int:
    of_key = stat.S_IFDIR if is_directory else stat.S_IFREG
    if text is None:
        return of_key | DEFAULT_PERMISSIONS
    found = _MODE.fullmatch(text)
    if found is None:
        problems.append(f"{PERMISSIONS} is {text[:40]!r}, no octal mode")
        return of_key | DEFAULT_PERMISSIONS
    mode = int(found[1], 8)
    kind = mode & ~0o7777 or of_key
    fits = {stat.S_IFDIR} if is_directory else {stat.S_IFREG, stat.S_IFLNK}
    if kind not in fits:
        what = "a directory" if is_directory else "a file or a symbolic link"
        problems.append(f"{PERMISSIONS} is {text[:40]!r}, and the key is that of {what}")
        kind = of_key
    return portable_mode(kind | stat.S_IMODE(mode))


def _id(name: str, metadata: Mapping[str, str], missing: int, problems: list[str]) -> int:
    text = metadata.get(name)
    if text is None:
        return missing
    if _ID.fullmatch(text) is None or int(text) > MOST_ID:
        problems.append(f"{name} is {text[:40]!r}, no number of a user or a group")
        return missing
    return int(text)


def _time(name: str, metadata: Mapping[str, str], missing: int, problems: list[str]) -> int:
    text = metadata.get(name)
    if text is None:
        return missing
    found = _TIME.fullmatch(text)
    nanoseconds = int(found[1]) * (1 if found[2] else _NS_IN_MS) if found else None
    if nanoseconds is None or abs(nanoseconds) > LATEST_NS:
        problems.append(f"{name} is {text[:40]!r}, no time in ns or ms")
        return missing
    return nanoseconds


def why_no_target(size: int, body: bytes = b"") -> str | None:
    """Why an object of so many bytes, with this body, is no target of a symbolic link; None for one."""
    if not size:
        return "it has no target"
    if size > LONGEST_TARGET:
        return f"its target has {size:,} bytes, and no link can have more than {LONGEST_TARGET:,}"
    return "its target has a NUL, which no path can have" if b"\0" in body else None
