"""The disks of this machine: what they are, who uses them, and what is on them, found out without writing.

Superblocks of md 1.2, XFS and ext4 are read here and not through mdadm and blkid, because a plan has to know
the file system of an array that is not assembled yet, and `mdadm --examine --export` keeps chunk and role to
itself. What they say of an array decides whether it is ours.

Blank is a disk on which libblkid knows no signature and whose ends are empty as well: a database that uses a
raw disk leaves no signature, only bytes. Clouds hand out instance stores that read as zeros.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.commands import run, within

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


_SKIPPED = ("ram", "zram", "md", "dm-", "sr", "fd", "nbd", "drbd", "bcache", "rbd", "mtdblock", "zd", "pmem")
"""Names of block devices that are no disks, or that lie on others."""
_SECTOR = 512
"""The unit of /sys/block/*/size, whatever the disk's own (Documentation/ABI/stable/sysfs-block)."""


@dataclass(frozen=True)
class Content:
    """What is on a disk."""

    signatures: tuple[tuple[int, str], ...] = ()
    """Offset in bytes and name of each signature that libblkid knows."""
    zero_ends: bool = False
    """Whether first and last bytes hold nothing but zeros (or nothing but ones, as erased flash reads)."""
    md: MdMember | None = None
    filesystem: FileSystemSuperblock | None = None
    """At its start; behind the superblock of md where it is the first of its array."""
    busy: bool = False
    """Whether the kernel refuses it to a second user: mounted, swap, part of something, in any name space."""
    error: str | None = None
    """Why it could not be read."""


@dataclass(frozen=True)
class Disk:
    """A whole disk."""

    name: str
    path: str
    bytes: int
    transport: str = ""
    model: str = ""
    serial: str = ""
    """What tells it from others; the name where it has nothing else."""
    remote: bool = False
    """Whether it is reached over a network (NVMe over fabrics, iSCSI)."""
    read_only: bool = False
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Names of the block devices that lie on it or on its partitions."""
    used: str | None = None
    """How it is mounted or used as swap, or one of its partitions."""
    rule: str | None = None
    """The rule that makes it one of an instance store; None where no rule fits."""
    content: Content = field(default_factory=Content)


@dataclass(frozen=True)
class Mount:
    """A mount as /proc/self/mountinfo has it."""

    device: str
    """major:minor."""
    point: str
    type: str
    source: str
    options: str


@dataclass(frozen=True)
class MdArray:
    """An md device that the kernel has, running or not."""

    name: str
    path: str
    state: str
    """As /sys/block/mdN/md/array_state: inactive, clean, active, read-auto, broken, ..."""
    level: str
    raid_disks: int
    members: tuple[str, ...]
    """Names of the disks."""
    device: str
    """major:minor."""
    holders: tuple[str, ...] = ()
    used: str | None = None
    filesystem: FileSystemSuperblock | None = None


def mounts(mountinfo: str) -> tuple[Mount, ...]:
    """Parse mountinfo (proc_pid_mountinfo(5)); the part after ` - ` is type, source, options."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) >= 6 and len(right) >= 2:
            source = _unescaped(right[1])
            options = f"{left[5]},{right[2] if len(right) > 2 else ''}"
            found.append(Mount(left[2], _unescaped(left[4]), right[0], source, options))
    return tuple(found)


def _unescaped(text: str) -> str:
    """Blanks and the like are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


class BlockDevices:
    """Reads the block devices below `sysfs` and `proc`; both are roots that tests can lay out themselves."""

    def __init__(self, sysfs: Path = Path("/sys"), proc: Path = Path("/proc"), dev: str = "/dev") -> None:
        self._block = sysfs / "block"
        self._dev = dev
        self.mounts = mounts(_read(proc / "self" / "mountinfo"))
        self._used: Mapping[str, str] = self._uses(_read(proc / "swaps"))

    def disks(self) -> tuple[Disk, ...]:
        """Every whole disk, in the order of their names as people count."""
        return _with_unique_serials([self._disk(name) for name in sorted(self._names(), key=_natural)])

    def arrays(self) -> tuple[MdArray, ...]:
        """Every md device, also one that is not running but holds disks."""
        names = [name for name in _listed(self._block) if (self._block / name / "md").is_dir()]
        return tuple(self._array(name) for name in sorted(names, key=_natural))

    def _names(self) -> list[str]:
        names = [name for name in _listed(self._block) if not name.startswith(_SKIPPED)]
        # A path of a multipath NVMe disk is hidden and has no node of its own.
        return [
            name for name in names if _read(self._block / name / "hidden").strip() != "1" and self._size(name)
        ]

    def _size(self, name: str) -> int:
        text = _read(self._block / name / "size").strip()
        return int(text) * _SECTOR if text.isdigit() else 0

    def _disk(self, name: str) -> Disk:
        directory = self._block / name
        partitions = tuple(each for each in _listed(directory) if (directory / each / "partition").exists())
        holders = [*_listed(directory / "holders")]
        for partition in partitions:
            holders += _listed(directory / partition / "holders")
        transport = _transport(name)
        numbers = [_read(directory / "dev").strip()]
        numbers += [_read(directory / each / "dev").strip() for each in partitions]
        return Disk(
            name=name,
            path=f"{self._dev}/{name.replace('!', '/')}",
            bytes=self._size(name),
            transport=transport,
            model=_read(directory / "device" / "model").strip(),
            serial=self._serial(directory, transport) or name,
            remote=_is_remote(directory, transport),
            read_only=_read(directory / "ro").strip() == "1",
            partitions=partitions,
            holders=tuple(sorted(set(holders))),
            used=next((self._used[number] for number in numbers if number in self._used), None),
        )

    def _serial(self, directory: Path, transport: str) -> str:
        """NVMe has it below device, virtio and ubd beside it; a loop device is known by its file."""
        if transport == "loop":
            return _read(directory / "loop" / "backing_file").strip()
        places = ("device/serial", "serial", "wwid", "device/wwid")
        texts = [_read(directory / place).strip() for place in places]
        return next((text for text in texts if text not in ("", "(null)")), "")

    def _array(self, name: str) -> MdArray:
        directory = self._block / name
        disks = _read(directory / "md" / "raid_disks").split()
        number = _read(directory / "dev").strip()
        return MdArray(
            name=name,
            path=f"{self._dev}/{name}",
            state=_read(directory / "md" / "array_state").strip() or "clear",
            level=_read(directory / "md" / "level").strip(),
            raid_disks=int(disks[0]) if disks and disks[0].isdigit() else 0,
            members=tuple(_listed(directory / "slaves")),
            device=number,
            holders=tuple(_listed(directory / "holders")),
            used=self._used.get(number),
        )

    def _uses(self, swaps: str) -> dict[str, str]:
        """By major:minor: mounts, and swap by the number of the device that it names."""
        used = {mount.device: f"mounted on {mount.point}" for mount in reversed(self.mounts)}
        for mount in self.mounts:
            # btrfs and others show a device that does not exist; their source is the real one.
            if mount.device.startswith("0:") and mount.source.startswith("/dev/"):
                used.setdefault(_number(mount.source), f"mounted on {mount.point}")
        for line in swaps.splitlines()[1:]:
            if line.startswith("/dev/"):
                used[_number(line.split()[0])] = "used as swap"
        return used


def _with_unique_serials(disks: list[Disk]) -> tuple[Disk, ...]:
    """Disks with the name added to a serial that several share: some clouds give all their disks one."""
    serials = [disk.serial for disk in disks]
    return tuple(
        replace(disk, serial=f"{disk.serial} {disk.name}") if serials.count(disk.serial) > 1 else disk
        for disk in disks
    )


def _number(path: str) -> str:
    try:
        found = os.stat(path).st_rdev  # noqa: PTH116 - a device node, named by the kernel
    except OSError:
        return path
    return f"{os.major(found)}:{os.minor(found)}"


def _transport(name: str) -> str:
    """How a disk is attached, out of what its driver names it."""
    kinds = {"nvme": "nvme", "vd": "virtio", "xvd": "xen", "sd": "scsi", "ubd": "ubd", "loop": "loop"}
    return next((kind for prefix, kind in kinds.items() if name.startswith(prefix)), "")


def _is_remote(directory: Path, transport: str) -> bool:
    """NVMe over fabrics says tcp, rdma or fc where local disks say pcie; iSCSI disks hang below a session."""
    if transport == "nvme":
        device = directory / "device"
        controllers = [device, *(device / each for each in _listed(device) if re.fullmatch(r"nvme\d+", each))]
        kinds = {_read(controller / "transport").strip() for controller in controllers} - {""}
        return bool(kinds - {"pcie", "apple-nvme"})
    if transport == "scsi":
        return "/session" in os.path.realpath(directory)
    return False


def _listed(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return []


def _read(path: Path) -> str:
    """The text of a file of the kernel; nothing where it is not there or does not tell."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _natural(name: str) -> list[tuple[int, str]]:
    """nvme2n1 before nvme10n1."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


END_BYTES = 4 << 20
"""How much of each end counts: labels of all that libblkid knows lie within, and the first bytes of a first
partition (at 1 MiB), for whoever lost a partition table and wants the data back."""
_READ_S = 30.0
"""For 8 MiB of a disk that works; one that does not answer is a finding, not a hang."""
_PIECE = 1 << 20


def inspect(path: str) -> Content:
    """Read a disk. Never raises: `error` tells what cannot be read, and nothing is done to such a disk."""
    try:
        seen = within(_READ_S, lambda: _look(path))
    except (OSError, TimeoutError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Content(error=f"it cannot be read: {reason}")
    signed = run(["wipefs", "--no-act", "--parsable", path], _READ_S)
    if not signed.well:
        return Content(error=str(signed), busy=seen["busy"])
    return Content(
        signatures=signatures(signed.output),
        zero_ends=seen["zero"],
        md=md_member(bytes.fromhex(seen["md"])),
        filesystem=file_system(bytes.fromhex(seen["filesystem"])),
        busy=seen["busy"],
    )


def inspect_array(path: str) -> FileSystemSuperblock | None:
    """The file system on a running md device; None where there is none or it does not answer."""
    try:
        return file_system(bytes.fromhex(within(_READ_S, lambda: _look(path))["filesystem"]))
    except (OSError, TimeoutError):
        return None


def signatures(parsable: str) -> tuple[tuple[int, str], ...]:
    """Parse `wipefs --parsable`: lines of offset,uuid,label,type below one that begins with #."""
    found = []
    for line in parsable.splitlines():
        fields = line.split(",")
        if line.startswith("#") or not line.strip():
            continue
        # What cannot be read is a signature all the same, and at the start: the disk is not blank.
        offset = int(fields[0], 16) if re.fullmatch(r"0x[0-9a-f]+", fields[0]) else 0
        found.append((offset, fields[-1].strip()))
    return tuple(sorted(found))


def _look(path: str) -> dict[str, Any]:
    """In a child: plain data. Raises OSError."""
    disk = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # md writes superblocks past the page cache of its members; what is cached may be old.
        with contextlib.suppress(OSError):
            os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.lseek(disk, 0, os.SEEK_END)
        md = os.pread(disk, MD_BYTES, MD_OFFSET)
        member = md_member(md)
        start = member.data_offset if member is not None and member.role == 0 else 0
        return {
            "zero": all(_is_empty(disk, *piece) for piece in _ends(size)),
            "md": md.hex(),
            "filesystem": os.pread(disk, FILESYSTEM_BYTES, start).hex(),
            "busy": _is_busy(path),
        }
    finally:
        os.close(disk)


def _ends(size: int) -> list[tuple[int, int]]:
    """Offset and length of both ends, once where they meet."""
    if size <= 2 * END_BYTES:
        return [(0, size)]
    return [(0, END_BYTES), (size - END_BYTES, END_BYTES)]


def _is_empty(disk: int, start: int, length: int) -> bool:
    at = start
    while at < start + length:
        piece = os.pread(disk, min(_PIECE, start + length - at), at)
        if not piece or piece not in (bytes(len(piece)), b"\xff" * len(piece)):
            return False
        at += len(piece)
    return True


def _is_busy(path: str) -> bool:
    """An exclusive open is refused while anything has claimed the disk (Linux block/bdev.c, bd_may_claim)."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return True
    return False
