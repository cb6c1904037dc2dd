"""Records of a changelog, as `llapi_changelog_recv` hands them out, and which files each is about.

Layout and numbers: `struct changelog_rec` and its extensions, `enum changelog_rec_type` and the flags in
lustre/include/uapi/linux/lustre/lustre_user.h (Lustre 2.10 to 2.17), in the byte order of the machine. Names
are not needed: whatever a file was or is called is known by its FID. `lfs changelog` prints the same as
text, but names as they are, so that one with a line feed makes two lines of a record (lustre/utils/lfs.c).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from gridwright.repository.copytool.liblustreapi import Fid

_RECORD = struct.Struct("=HHIQQQ" + "QII" * 2)
_RENAME = struct.Struct("=" + "QII" * 2)
_JOB_BYTES, _EXTRA_BYTES = 32, 8
HEAD_BYTES = _RECORD.size
"""What every record has."""
_IS_RENAME, _HAS_JOB, _HAS_EXTRA = 0x2000, 0x4000, 0x8000
_IGIF, _LAST_IGIF = 12, 0xFFFFFFFF
"""FIDs of files that are older than FIDs: the sequence is the inode (lustre_fid.h, FID_SEQ_IGIF)."""


class ChangeType(IntEnum):
    """`enum changelog_rec_type`."""

    MARK = 0
    CREATE = 1
    MKDIR = 2
    HARDLINK = 3
    SOFTLINK = 4
    MKNOD = 5
    UNLINK = 6
    RMDIR = 7
    RENAME = 8
    RENAME_TO = 9
    OPEN = 10
    CLOSE = 11
    LAYOUT = 12
    TRUNCATE = 13
    SETATTR = 14
    SETXATTR = 15
    HSM = 16
    MTIME = 17
    CTIME = 18
    ATIME = 19
    MIGRATE = 20
    FLR_WRITE = 21
    RESYNC = 22
    GETXATTR = 23
    DENIED_OPEN = 24


_KNOWN = frozenset(ChangeType)
_CHANGES_NOTHING = frozenset(
    {ChangeType.MARK, ChangeType.OPEN, ChangeType.ATIME, ChangeType.GETXATTR, ChangeType.DENIED_OPEN}
)
"""A time of access travels with its object, and is no reason to send it."""
_MOVES = frozenset({ChangeType.RENAME, ChangeType.RENAME_TO, ChangeType.MIGRATE})
"""After these a directory, with all below it, has another path or other FIDs."""


class RecordError(ValueError):
    """A record is not what this release of Gridwright reads."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One record. FIDs are None where the record has none."""

    index: int
    type: ChangeType | None
    """None for one that this release does not know."""
    time_ns: int
    """Since 1970, by the clock of the metadata server."""
    target: Fid | None
    """The file; of a rename what was overwritten."""
    parent: Fid | None
    """The directory that its name is in; of a rename the new one."""
    source: Fid | None = None
    """What was renamed."""
    source_parent: Fid | None = None
    """The directory that it was in before."""

    @property
    def moved(self) -> list[Fid]:
        """What may be a directory whose path, and that of all below it, is another one."""
        fids = (self.source, self.target) if self.type in _MOVES else ()
        return [each for each in fids if each is not None]

    @property
    def changed_fids(self) -> list[Fid]:
        """All files and directories that may be changed."""
        if self.type in _CHANGES_NOTHING:
            return []
        fids = (self.target, self.parent, self.source, self.source_parent)
        return [each for each in fids if each is not None]


def size_of(head: bytes) -> int:
    """How many bytes a record has, of its first `HEAD_BYTES`."""
    name_bytes, flags = struct.unpack_from("=HH", head)
    size = HEAD_BYTES + int(name_bytes)
    for flag, more in ((_IS_RENAME, _RENAME.size), (_HAS_JOB, _JOB_BYTES), (_HAS_EXTRA, _EXTRA_BYTES)):
        size += more if flags & flag else 0
    return size


def parse_record(data: bytes) -> ChangeRecord:
    """The record of some bytes. Raises RecordError for what is cut."""
    if len(data) < HEAD_BYTES or len(data) < size_of(data):
        raise RecordError(f"a record of {len(data)} bytes is cut")
    _, flags, number, index, _, time, *fids = _RECORD.unpack_from(data)
    kind = ChangeType(number) if number in _KNOWN else None
    source = source_parent = None
    if flags & _IS_RENAME:
        moved = _RENAME.unpack_from(data, HEAD_BYTES)
        source, source_parent = _fid(*moved[:3]), _fid(*moved[3:])
    # Of a mark, what stands in the place of FIDs are flags.
    target, parent = (None, None) if kind is ChangeType.MARK else (_fid(*fids[:3]), _fid(*fids[3:]))
    time_ns = (time >> 30) * 1_000_000_000 + (time & ((1 << 30) - 1))
    return ChangeRecord(index, kind, time_ns, target, parent, source, source_parent)


def _fid(sequence: int, number: int, version: int) -> Fid | None:
    return Fid(sequence, number, version) if sequence or number else None


def fid_of(inode: int) -> Fid | None:
    """The file that has an inode number, which may be signed; None where that does not tell.

    Sequences have 33 bits by now (0x200000400 and above), so that `inode_of` loses nothing of them.
    """
    sequence, number = divmod(inode & 0xFFFFFFFFFFFFFFFF, 1 << 24)
    return Fid(sequence, number) if sequence > _LAST_IGIF else None


def inode_of(fid: Fid) -> int:
    """The inode number that a client of 64 bits gives a file (`fid_flatten64` of lustre_fid.h)."""
    sequence = fid.sequence
    if _IGIF <= sequence <= _LAST_IGIF:
        return sequence
    flat = (sequence << 24) + ((sequence >> 24) & 0xFFFFFF0000) + fid.object
    return (flat & 0xFFFFFFFFFFFFFFFF) or fid.object
