"""Mounts of a node: its table, read without touching any, and what is below a path, down to its queue."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

import psutil

from gridwright.filesystems.health import Run
from gridwright.kernel_files import text_of

LIMIT_S = 5.0
"""For reading a file of /proc: it answers at once unless the node itself is lost."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/mounts."""

    source: str
    point: str
    type: str
    options: tuple[str, ...]

    def option(self, name: str) -> str | None:
        """The value of an option `name=value`; empty for one without value, None where it is not there."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None


def parse_mounts(text: str) -> list[Mount]:
    """The lines of /proc/mounts, in their order; those that cannot be understood are passed over."""
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4:
            source, point, kind = (unescaped(field) for field in fields[:3])
            found.append(Mount(source, point, kind, tuple(fields[3].split(","))))
    return found


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds a path: the longest, and of several on one point the last, which is on top."""
    place = PurePosixPath(path)
    holding = [mount for mount in mounts if place.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda each: len(each.point), default=None)


def read_mounts(run: Run) -> list[Mount]:
    """The mounts of the node. Raises GridwrightError (status ENVIRONMENT) where it does not answer."""
    return parse_mounts(run(["cat", "/proc/mounts"], timeout_s=LIMIT_S).stdout.decode(errors="replace"))


def unescaped(field: str) -> str:
    r"""Blank, tab, newline and backslash are written as \040 and so on (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


MEMORY_BACKED = frozenset({"tmpfs", "ramfs"})
"""File systems that are memory: eviction cannot empty them (tmpfs(5))."""

OF_THE_KERNEL = frozenset(
    {
        *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs", "bpf"),
        *("devpts", "mqueue", "pstore", "efivarfs", "binfmt_misc"),
    }
)
"""File systems that show what the kernel knows, and keep no files (Documentation/filesystems of Linux)."""

SERVED_OVER_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "lustre", "gpfs", "ceph", "cifs", "smb3", "beegfs", "9p", "virtiofs", "afs"),
        *("wekafs", "pvfs2", "panfs"),
    }
)
"""File systems whose servers have caches of their own, which no client can see or empty."""

TARGETS = frozenset({"lustre_tgt"})
"""Mounts by which a node serves others: what lies there are no files of its own."""


def is_served(kernel_type: str) -> bool:
    """Whether servers lie behind file systems that /proc/mounts shows as this; FUSE counts as one."""
    return kernel_type in SERVED_OVER_NETWORK or _is_fuse(kernel_type)


def _is_fuse(kernel_type: str) -> bool:
    return kernel_type in {"fuse", "fuseblk"} or kernel_type.startswith("fuse.")


@dataclass(frozen=True, slots=True)
class LibraryMount:
    """Facts of a mounted file system and its device; None where the kernel does not say.

    `read_ahead_bytes` and `scheduler` are of the block device, see
    https://docs.kernel.org/block/queue-sysfs.html.
    """

    mount_point: str
    filesystem_type: str
    options: str
    source: str
    device: str | None
    """Kernel name of the disk, such as `nvme0n1`; a partition is named by its disk."""
    scheduler: str | None
    read_ahead_bytes: int | None
    rotational: bool | None
    model: str | None
    total_bytes: int
    used_bytes: int
    available_bytes: int

    @property
    def memory_backed(self) -> bool:
        """Whether the file system is memory."""
        return self.filesystem_type in MEMORY_BACKED

    @property
    def served_over_network(self) -> bool:
        """Whether servers with caches of their own lie behind it."""
        return is_served(self.filesystem_type)

    @property
    def is_fuse(self) -> bool:
        """Whether a process of this machine serves it."""
        return _is_fuse(self.filesystem_type)

    def to_record(self) -> dict[str, object]:
        """Plain data for a run record."""
        return asdict(self)


def describe_mount(path: Path) -> LibraryMount:
    """Describe the file system that holds `path`, which must exist.

    Raises OSError if the path cannot be looked at.
    """
    real = path.resolve(strict=True)
    mounts = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    # Of several mounts on one point the last is the one on top.
    mount = max(reversed(mounts), key=lambda part: len(part.mountpoint))
    disk = _disk(real.stat().st_dev, mount.device)
    status = os.statvfs(real)
    unit = status.f_frsize
    # Nothing is below /dev/null: a mount without a disk has no answer.
    queue = Path("/sys/block") / disk / "queue" if disk else Path(os.devnull)
    return LibraryMount(
        mount_point=mount.mountpoint,
        filesystem_type=mount.fstype,
        options=mount.opts,
        source=mount.device,
        device=disk,
        scheduler=_chosen(text_of(queue / "scheduler")),
        read_ahead_bytes=_kib(text_of(queue / "read_ahead_kb")),
        rotational=_flag(text_of(queue / "rotational")),
        model=text_of(queue.parent / "device" / "model"),
        total_bytes=status.f_blocks * unit,
        used_bytes=(status.f_blocks - status.f_bfree) * unit,
        available_bytes=status.f_bavail * unit,
    )


def _disk(number: int, source: str) -> str | None:
    """Name the disk of a device number, else of a mount's source (btrfs has numbers of its own)."""
    candidates = [Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")]
    if source.startswith("/dev/"):
        candidates.append(Path("/sys/class/block") / Path(os.path.realpath(source)).name)
    for link in candidates:
        if link.exists():
            device = link.resolve()
            return device.parent.name if (device / "partition").exists() else device.name
    return None


def _chosen(schedulers: str | None) -> str | None:
    """Pick `mq-deadline` out of `none [mq-deadline] kyber bfq`."""
    if schedulers is None or "[" not in schedulers:
        return schedulers
    return schedulers.split("[", 1)[1].split("]", 1)[0]


def _kib(text: str | None) -> int | None:
    return int(text) * 1024 if text and text.isdigit() else None


def _flag(text: str | None) -> bool | None:
    return text == "1" if text in {"0", "1"} else None


def is_closed(path: Path) -> bool:
    """Whether this user may read a directory and not write it, by its owner and mode. Raises OSError."""
    return (
        path.is_dir()
        and os.access(path, os.R_OK | os.X_OK, effective_ids=True)
        and not os.access(path, os.W_OK, effective_ids=True)
        and not os.statvfs(path).f_flag & os.ST_RDONLY
    )
