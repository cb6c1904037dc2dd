"""Reads what mounts of a node tell: bytes that their clients moved, room that is left, what libraries lie on.

Nothing here starts a process. All but the table of mounts may hang, and is read by `HeldReads`.

Answers the few commands by which kinds of file systems read counters, without a process for each sample.

`lctl get_param` reads files of /proc and /sys by patterns (lctl get_param is `lustre_param` of
lustre/utils/lustre_param.c); `cat` and `id -u` are what they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.filesystems.block_devices import below, device_of, local_mount
from gridwright.filesystems.counters import FigureSource, ReadCounts, TrafficCount, added
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import MEMORY_BACKED, OF_THE_KERNEL, Mount, is_served, parse_mounts
from gridwright.filesystems.watching import watcher_of
from gridwright.kernel_files import text_of
from gridwright.monitor.readings import MountedPlace, Reading

_TREES = ("proc/fs/lustre", "proc/sys/lnet", "sys/fs/lustre", "sys/kernel/debug/lustre")
"""Where Lustre has its parameters; each release has moved some of them."""


class InProcess:
    """A `Run` of this node that starts no process, and refuses what is no reading of counters."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        """Answer one of the commands. Raises GridwrightError (status ENVIRONMENT) for any other one."""
        match list(command):
            case ["cat", path]:
                return self._cat(path)
            case ["id", "-u"]:
                return CommandOutput(0, str(os.geteuid()).encode(), b"")
            case ["lctl", "get_param", *names]:
                text = b"".join(self._parameters(names))
                return CommandOutput(0 if text else 2, text, b"")
        raise environment_error(
            f"a sample starts no process, and {command[0]} would be one",
            remedy="the kind of this file system cannot be sampled",
        )

    def _cat(self, path: str) -> CommandOutput:
        try:
            return CommandOutput(0, (self._root / path.lstrip("/")).read_bytes(), b"")
        except OSError as error:
            return CommandOutput(1, b"", (error.strerror or "").encode())

    def _parameters(self, names: Sequence[str]) -> Iterator[bytes]:
        for tree in _TREES:
            for name in names:
                for path in sorted((self._root / tree).glob(name.replace(".", "/"))):
                    parameter = ".".join(path.relative_to(self._root / tree).parts)
                    value = path.read_bytes()
                    line = b"\n" if b"\n" in value.rstrip(b"\n") else b""
                    yield parameter.encode() + b"=" + line + value.rstrip(b"\n") + b"\n"


Read = Callable[[], list[Reading]]
_NO_FILES = OF_THE_KERNEL | MEMORY_BACKED
_NOT_SHOWN = frozenset(
    {*("devtmpfs", "squashfs", "autofs", "nsfs", "rpc_pipefs", "fusectl", "hugetlbfs", "selinuxfs"), "nfsd"}
)
"""Nothing that users write is on these (Documentation/filesystems of Linux)."""
ROOT = Path("/")


def shown_mounts(root: Path = ROOT) -> list[Mount]:
    """The mounts that hold files on storage; of what is mounted at several points, the shortest one."""
    return list(_shown(text_of(f"{root}/proc/self/mounts") or ""))


@lru_cache(maxsize=2)
def _shown(text: str) -> tuple[Mount, ...]:
    """The table is read with each sample, and seldom changes."""
    mounts: dict[tuple[str, str], Mount] = {}
    for mount in parse_mounts(text):
        if mount.type in _NO_FILES | _NOT_SHOWN:
            continue
        key = (mount.source, mount.point if is_served(mount.type) or mount.type == "overlay" else mount.type)
        if key not in mounts or len(mount.point) < len(mounts[key].point):
            mounts[key] = mount
    return tuple(sorted(mounts.values(), key=lambda each: each.point))


def moved_sources(mounts: Sequence[Mount], root: Path = ROOT) -> dict[str, Read]:
    """By mount point, how to read what clients moved; of those whose client counts it."""
    run = InProcess(root)
    reads: dict[str, Read] = {}
    for mount in mounts:
        watcher = watcher_of(mount.type)
        counts = watcher.mount_counters(run, mount.point, root) if watcher else None
        if counts is not None:
            reads[mount.point] = partial(_moved, mount.point, counts)
    return reads


def served_sources(mounts: Sequence[Mount], root: Path, run: Run) -> dict[str, FigureSource]:
    """By a name that says what it is, what kinds of file systems that are mounted tell beside that."""
    sources: dict[str, FigureSource] = {}
    for kernel_type in sorted({mount.type for mount in mounts}):
        watcher = watcher_of(kernel_type)
        sources |= watcher.server_figures(run, root) if watcher else {}
    return sources


def _moved(point: str, counts: ReadCounts) -> list[Reading]:
    """Of what is mounted several times here, all mounts together: kernels count each, and name no point."""
    readings: list[Reading] = []
    by_target: dict[str, TrafficCount] = {}
    for each in counts().values():
        there = by_target.get(each.target)
        by_target[each.target] = each if there is None else added(there, each)
    for count in by_target.values():
        labels, at, since = (point, count.target), count.at_s, count.since_s
        readings += (
            Reading("gridwright_mount_read_bytes_total", labels, count.read_bytes, at, since),
            Reading("gridwright_mount_written_bytes_total", labels, count.written_bytes, at, since),
            Reading("gridwright_mount_reads_total", labels, count.reads, at, since),
            Reading("gridwright_mount_writes_total", labels, count.writes, at, since),
        )
        if count.waited_s is not None:
            readings.append(
                Reading("gridwright_mount_waited_seconds_total", labels, count.waited_s, at, since)
            )
    return readings


def space_sources(mounts: Sequence[Mount]) -> dict[str, Read]:
    """By mount point, how to read how full it is; this asks servers."""
    return {mount.point: partial(_space, mount) for mount in mounts}


def _space(mount: Mount) -> list[Reading]:
    try:
        told, at = os.statvfs(mount.point), time.monotonic()
    except OSError as error:
        raise environment_error(f"{mount.type} does not serve: {error.strerror}") from error
    labels = (mount.point, mount.type, mount.source)
    return [
        Reading("node_filesystem_size_bytes", labels, told.f_blocks * told.f_frsize, at),
        Reading("node_filesystem_avail_bytes", labels, told.f_bavail * told.f_frsize, at),
    ]


def place_of(directory: str, root: Path = ROOT) -> MountedPlace:
    """What a directory lies on, by the table of mounts: the directory itself is not touched."""
    mount = local_mount(root, os.path.normpath(directory))
    if mount is None:
        return MountedPlace()
    device = None if is_served(mount.type) else device_of(root, mount)
    disks = [] if device is None else [each for each in below(root, device) if _is_disk(root, each)]
    return MountedPlace(mount.point, mount.type, disks[0] if disks else "", tuple(disks), mount.number)


def _is_disk(root: Path, name: str) -> bool:
    return not (root / "sys/class/block" / name / "partition").exists()
