"""The file that a loop device lies on, and how much of it this machine holds in its page cache.

`--engine direct` and an empty page cache of the library's own files leave that cache as it is: what was just
written can be read from it, however the test reads.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import Finding
from gridwright.interference.counters import stack
from gridwright.units import format_bytes

_CACHESTAT = 451
"""The number of cachestat(2) on all architectures; Linux has it since 6.5."""
NOTABLE = 0.05
"""Less than this part of the file is left unsaid, as reads with so much of them cached count."""


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


@dataclass(frozen=True, slots=True)
class HostFile:
    """The file below a loop device. `direct`: the device passes the page cache by (losetup --direct-io)."""

    device: str
    path: str
    direct: bool

    def resident_bytes(self) -> int | None:
        """How much of it is in the page cache; None where the kernel or the file's mode does not tell."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # A length of 0 is all to its end.
            pages, whole = _Pages(), _Range(0, 0)
            libc = ctypes.CDLL(None, use_errno=True)
            failed = libc.syscall(_CACHESTAT, file, ctypes.byref(whole), ctypes.byref(pages), 0)
            return None if failed else int(pages.cached) * os.sysconf("SC_PAGESIZE")
        finally:
            os.close(file)

    def used_bytes(self) -> int | None:
        """What it takes on the host's disk; holes hold nothing."""
        try:
            return Path(self.path).stat().st_blocks * 512
        except OSError:
            return None


def host_files(device: str | None, block: Path = Path("/sys/block")) -> list[HostFile]:
    """The files below a device: its own, or those of the members of a RAID."""
    found = []
    for layer in stack([device] if device else [], block):
        directory = block / layer.device / "loop"
        try:
            path = (directory / "backing_file").read_text().strip()
            direct = (directory / "dio").read_text().strip() == "1"
        except OSError:
            continue
        found.append(HostFile(layer.device, path, direct))
    return found


def named(library: str, files: Iterable[HostFile]) -> Iterator[Finding]:
    """Name the host files of a library that this machine's page cache can hold."""
    for file in files:
        if not file.direct:
            yield Finding(
                "info",
                "host-file-cache",
                f"library {library} lies on {file.device}, a loop device: this machine's page cache holds "
                f"its host file {file.path}, too, whatever the test reads with",
                f"have the device pass it by: losetup --direct-io=on {file.device} {file.path}",
            )


def measured(library: str, op: str, files: Iterable[HostFile]) -> Iterator[Finding]:
    """Tell how much of each host file is in the page cache now that a phase is to read."""
    for file in files:
        resident, used = (None, None) if file.direct else (file.resident_bytes(), file.used_bytes())
        if resident is None or not used or resident < NOTABLE * used:
            continue
        yield Finding(
            "warning",
            "host-file-cache",
            f"library {library}, phase {op}: {format_bytes(resident)} of {format_bytes(used)} in "
            f"{file.path}, the host file of {file.device}, were in this machine's page cache when reading "
            "began, so the figure may be the memory's and does not count",
            f"have the device pass it by: losetup --direct-io=on {file.device} {file.path}",
        )
