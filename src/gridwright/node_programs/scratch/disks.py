"""The disks of this machine as /sys and /proc have them: what they are, and who uses them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.node_programs.scratch.superblocks import FileSystemSuperblock, MdMember

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
