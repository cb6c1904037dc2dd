"""Superblocks read from bytes: md 1.2, XFS and ext4. What they say of an array decides whether it is ours.

They are read here and not through mdadm and blkid, because a plan has to know the file system of an array
that is not assembled yet, and `mdadm --examine --export` keeps chunk and role to itself.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass

MD_OFFSET = 4096
"""Where a superblock 1.2 lies (linux drivers/md/md.c, super_1_load: 8 sectors)."""
MD_BYTES = 4096
_MD_MAGIC = 0xA92B4EFC
_MD_HEAD = 256
"""Bytes before the roles of the devices (include/uapi/linux/raid/md_p.h, struct mdp_superblock_1)."""
_MOST_ROLES = 1920
_XFS_MAGIC = b"XFSB"
_EXT_OFFSET = 1024
_EXT_MAGIC = 0xEF53
FILESYSTEM_BYTES = 4096
"""From the start of a device; both superblocks lie within."""


@dataclass(frozen=True)
class MdMember:
    """What a disk says of the array that it belongs to."""

    uuid: str
    """As uuid.UUID prints it."""
    name: str
    level: int
    chunk_bytes: int
    raid_disks: int
    role: int | None
    """Its place in the stripe; None where the superblock is damaged or the disk is a spare."""
    data_offset: int
    """Bytes from the start of the disk to the first chunk."""
    intact: bool
    """Whether its checksum holds."""


@dataclass(frozen=True)
class FileSystemSuperblock:
    """The superblock of a file system; unit and width in bytes, 0 where it knows of no stripe."""

    type: str
    uuid: str
    label: str
    unit_bytes: int
    width_bytes: int
    finished: bool = True
    """Whether mkfs has said that it is whole (XFS only)."""


def md_member(data: bytes) -> MdMember | None:
    """What the 4096 bytes at MD_OFFSET say; None where there is no superblock of version 1."""
    if len(data) < _MD_HEAD or struct.unpack_from("<II", data) != (_MD_MAGIC, 1):
        return None
    level, _layout = struct.unpack_from("<ii", data, 72)
    chunk_sectors, raid_disks = struct.unpack_from("<II", data, 88)
    data_sectors = struct.unpack_from("<Q", data, 128)[0]
    number = struct.unpack_from("<I", data, 160)[0]
    most = struct.unpack_from("<I", data, 220)[0]
    intact = most <= _MOST_ROLES and _MD_HEAD + 2 * most <= len(data) and _checksum_holds(data, most)
    role = None
    if intact and number < most:
        given = struct.unpack_from("<H", data, _MD_HEAD + 2 * number)[0]
        role = given if given < raid_disks else None
    return MdMember(
        uuid=str(uuid.UUID(bytes=bytes(data[16:32]))),
        name=data[32:64].split(b"\0")[0].decode("utf-8", "replace"),
        level=level,
        chunk_bytes=chunk_sectors * 512,
        raid_disks=raid_disks,
        role=role,
        data_offset=data_sectors * 512,
        intact=intact,
    )


def _checksum_holds(data: bytes, most: int) -> bool:
    """Linux drivers/md/md.c, calc_sb_1_csum: the sum of all words but the checksum, folded once."""
    size = _MD_HEAD + 2 * most
    held = struct.unpack_from("<I", data, 216)[0]
    total = sum(struct.unpack_from(f"<{size // 4}I", data)) - held
    if size % 4:
        total += struct.unpack_from("<H", data, size - 2)[0]
    return bool((total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF == held)


def file_system(data: bytes) -> FileSystemSuperblock | None:
    """What the first FILESYSTEM_BYTES of a device say; None for anything but XFS and ext4."""
    if len(data) < FILESYSTEM_BYTES:
        return None
    if data[:4] == _XFS_MAGIC:
        return _xfs(data)
    if struct.unpack_from("<H", data, _EXT_OFFSET + 0x38)[0] == _EXT_MAGIC:
        return _ext(data[_EXT_OFFSET:])
    return None


def _xfs(data: bytes) -> FileSystemSuperblock:
    """Linux fs/xfs/libxfs/xfs_format.h, struct xfs_dsb: big-endian, unit and width in blocks."""
    block = struct.unpack_from(">I", data, 4)[0]
    unit, width = struct.unpack_from(">II", data, 184)
    return FileSystemSuperblock(
        type="xfs",
        uuid=str(uuid.UUID(bytes=bytes(data[32:48]))),
        label=_text(data[108:120]),
        unit_bytes=unit * block,
        width_bytes=width * block,
        finished=data[126] == 0,
    )


def _ext(data: bytes) -> FileSystemSuperblock:
    """Linux fs/ext4/ext4.h, struct ext4_super_block: little-endian, stride and width in blocks.

    An ext2 or ext3 is told from ext4 by extents (EXT4_FEATURE_INCOMPAT_EXTENTS, 0x40).
    """
    block = 1024 << min(struct.unpack_from("<I", data, 0x18)[0], 16)
    extents = struct.unpack_from("<I", data, 0x60)[0] & 0x40
    stride = struct.unpack_from("<H", data, 0x164)[0]
    width = struct.unpack_from("<I", data, 0x170)[0]
    return FileSystemSuperblock(
        type="ext4" if extents else "ext2",
        uuid=str(uuid.UUID(bytes=bytes(data[0x68:0x78]))),
        label=_text(data[0x78:0x88]),
        unit_bytes=stride * block,
        width_bytes=width * block,
    )


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "replace")
