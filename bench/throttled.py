"""A disk of a known rate for the benchmarks: a loop device that the kernel lets pass so many bytes a second.

Needs root and the blkio controller of control groups v1. The limits are set in the root group,
because the kernel writes back buffered data from there, whoever wrote them: a limit in a group of the
writers' own would not hold (https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

_BLKIO = Path("/sys/fs/cgroup/blkio")
_WAYS = ("read", "write")
_DIRTY_BYTES = 32 << 20
"""What may wait in memory to be written to the disk. By default it would be a part of the node's memory,
more than a short run writes in all: the disk's rate would be felt by none."""
_READ_AHEAD_KIB = 4096
"""A block of the tests' tables: guides to these grids raise the kernel's 128 KiB."""
_EVERY_S = 0.2


class ThrottledDisk:
    """An ext4 file system on a device of its own; at full speed until `limit`."""

    def __init__(self, mount_point: Path, device: str) -> None:
        self.mount_point = mount_point
        self.name = Path(device).name
        self._number = Path(f"/sys/block/{self.name}/dev").read_text().strip()
        self._settings = Path("/sys/class/bdi") / self._number
        self._before = {
            name: (self._settings / name).read_text().strip()
            for name in ("max_ratio", "strict_limit", "read_ahead_kb")
        }

    def limit(self, bytes_per_s: int) -> None:
        """Let so many bytes per second pass in each direction; 0 means as many as it can."""
        for way in _WAYS:
            (_BLKIO / f"blkio.throttle.{way}_bps_device").write_text(f"{self._number} {bytes_per_s}")
        (self._settings / "strict_limit").write_text("1")
        (self._settings / "max_bytes").write_text(str(_DIRTY_BYTES))
        (self._settings / "read_ahead_kb").write_text(str(_READ_AHEAD_KIB))

    def release(self) -> None:
        """As it was before."""
        for way in _WAYS:
            (_BLKIO / f"blkio.throttle.{way}_bps_device").write_text(f"{self._number} 0")
        for name, value in self._before.items():
            (self._settings / name).write_text(value)

    def passed_bytes(self) -> tuple[int, int]:
        """Bytes read from and written to the device so far, in sectors of 512 (block/stat)."""
        fields = Path(f"/sys/block/{self.name}/stat").read_text().split()
        return int(fields[2]) * 512, int(fields[6]) * 512


@contextlib.contextmanager
def throttled_disk(directory: Path, size_bytes: int) -> Iterator[ThrottledDisk]:
    """Make and mount the disk, its image in `directory`; nothing of it is left at the end.

    Raises SystemExit where this machine does not allow it.
    """
    if os.geteuid() != 0 or not (_BLKIO / "blkio.throttle.write_bps_device").exists():
        raise SystemExit("needs root, and the blkio controller of control groups v1 at /sys/fs/cgroup/blkio")
    image, mount_point = directory / "disk.img", directory / "disk"
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    eager = "lazy_itable_init=0,lazy_journal_init=0"  # else the kernel would write to it in the background
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", eager, str(image))
    device = _run("losetup", "--find", "--show", "--direct-io=on", str(image)).strip()
    with contextlib.ExitStack() as undone:
        undone.callback(_run, "losetup", "--detach", device)
        disk = ThrottledDisk(mount_point, device)
        _run("mount", "-o", "noatime", device, str(mount_point))
        undone.callback(_run, "umount", str(mount_point))
        undone.callback(disk.release)
        yield disk


@contextlib.contextmanager
def kept_cold(directory: Path) -> Iterator[None]:
    """Take the tables below a directory out of the page cache as soon as nobody has them open.

    Tables that are larger than memory are read from the disk each time; these are small, and would
    stay in the page cache after their first reader. A table in use is left alone, with what was
    read ahead of it: a lease to write is only given on a file that no one else has open (fcntl(2)).
    """
    ended = threading.Event()
    # Someone who opens a file while it is leased has the kernel send this signal; we are done at once.
    signal.signal(signal.SIGIO, signal.SIG_IGN)

    def evict() -> None:
        while not ended.wait(_EVERY_S):
            for path in [*directory.rglob("*.arrow"), *directory.rglob("*.csv")]:
                with contextlib.suppress(OSError):
                    _evict_unused(path)

    thread = threading.Thread(target=evict)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _evict_unused(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _run(*command: str) -> str:
    done = subprocess.run(_command(command), capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _command(words: Sequence[str]) -> list[str]:
    return ["env", f"PATH={os.environ['PATH']}:/usr/sbin:/sbin", *words]
