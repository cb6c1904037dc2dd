"""Mounts of a node that hold data: local disks and shared file systems, not those of the kernel itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gridwright.doctor.facts.node_facts import MountFacts
from gridwright.filesystems.mounts import TARGETS, is_served

_TABLE = Path("/proc/self/mountinfo")
_MOST = 64
"""Mounts that are looked at; a node with more is one of many small ones."""
_IMAGES = frozenset({"squashfs", "iso9660", "erofs", "cramfs"})
"""Images that are full and read-only by nature."""
_KERNELS_OWN = ("/sys", "/dev", "/run", "/proc")
"""Where a tmpfs holds no data of users."""


def mounted() -> list[MountFacts]:
    """Every mount of a disk or a server, once; reads the kernel's table and touches none of them."""
    return data_mounts(_TABLE.read_text(errors="replace").splitlines())


def data_mounts(lines: Iterable[str]) -> list[MountFacts]:
    """Out of lines of /proc/self/mountinfo (proc(5)): the first mount of each device, in order.

    Mounts of one Lustre have one number (client_common_fill_super of lustre/llite/llite_lib.c), and each its
    own options: of what servers serve the first one with the same options counts.
    """
    facts: dict[tuple[str, str], MountFacts] = {}
    devices = set()
    for line in lines:
        words = line.split()
        if "-" not in words[6:]:
            continue
        kind, source, options = (*words[words.index("-", 6) + 1 :], "", "", "")[:3]
        point = unescaped(words[4])
        if not _holds_data(kind, source) or (kind == "tmpfs" and point.startswith(_KERNELS_OWN)):
            continue
        shown = ",".join(sorted({*words[5].split(","), *options.split(",")} - {""}))
        if words[2] in devices and not (is_served(kind) and words[3] == "/"):
            continue
        devices.add(words[2])
        facts.setdefault(
            (words[2], shown),
            MountFacts(
                point, unescaped(source), kind, shown, local=not is_served(kind) and kind not in TARGETS
            ),
        )
    return list(facts.values())[:_MOST]


def _holds_data(kind: str, source: str) -> bool:
    if kind in _IMAGES:
        return False
    return is_served(kind) or kind in ("zfs", "btrfs", "tmpfs") or source.startswith("/dev/")


def unescaped(text: str) -> str:
    """Blanks and backslashes are octal there: backslash, 040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def with_usage(mount: MountFacts) -> MountFacts:
    """A mount with its room and inodes (statvfs(3)). May hang. Raises OSError."""
    status = os.statvfs(mount.mount_point)
    return replace(
        mount,
        total_bytes=status.f_blocks * status.f_frsize,
        available_bytes=status.f_bavail * status.f_frsize,
        used_bytes=(status.f_blocks - status.f_bfree) * status.f_frsize,
        inodes=status.f_files or None,
        inodes_free=status.f_favail if status.f_files else None,
    )
