"""How full the storage pools of a Spectrum Scale are, out of what mmlspool prints for people.

Its columns are those of real clusters' output as others publish it (looked up 2026-11-28): Name, Id, BlkSize
with its unit, Data, Meta, then total and free KiB of data and of metadata, each free with its part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gridwright.errors import Finding
from gridwright.filesystems.free_space import FULL
from gridwright.units import format_bytes

TOLD = b"Storage pools in file system"
"""Begins what it prints."""
_KIB = 1024
_ROW = re.compile(
    r"^(?P<name>\w{1,255})\s+\d+\s+\d+ [KMG]B\s+(?P<data>yes|no)\s+(?P<meta>yes|no)\s+(?P<total>\d{1,18})\s+"
    r"(?P<free>\d{1,18}) \( *\d+%\)\s+(?P<meta_total>\d{1,18})\s+(?P<meta_free>\d{1,18}) \( *\d+%\)\s*$",
    re.MULTILINE,
)


class PoolSpace(NamedTuple):
    """A storage pool: bytes for data, or for metadata where it has these alone."""

    name: str
    total_bytes: int
    free_bytes: int


def pools_of(printed: str) -> list[PoolSpace]:
    """Pools of `mmlspool DEVICE`; lines that are no rows of it are passed over."""
    found = []
    for row in _ROW.finditer(printed):
        which = "" if row["data"] == "yes" else "meta_"
        found.append(
            PoolSpace(row["name"], int(row[f"{which}total"]) * _KIB, int(row[f"{which}free"]) * _KIB)
        )
    return found


def pool_findings(printed: str, device: str) -> Iterator[Finding]:
    """Pools that have little room left: a file is in one of them, however much the others have."""
    for pool in pools_of(printed):
        if not pool.total_bytes or pool.free_bytes >= (1 - FULL) * pool.total_bytes:
            continue
        yield Finding(
            "warning" if pool.free_bytes else "error",
            "scale-pool-full",
            f"pool {pool.name} of {device}: {100 - 100 * pool.free_bytes / pool.total_bytes:.0f} % in use, "
            f"{format_bytes(pool.free_bytes)} of {format_bytes(pool.total_bytes)} left. Files that belong "
            "there get no more, though other pools have room",
            f"Add disks to it, or have files leave it: migrations in the spec, or mmapplypolicy {device}",
        )
