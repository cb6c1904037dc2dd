"""All tables of the data set, by name, and whether they fit with what launches write at once.

That is checked before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.units import format_bytes
from gridwright.workload.datasets.table import DataTable
from gridwright.workload.datasets.tables import (
    ACCOUNTS,
    ADDITIONS,
    EXTRACT,
    ITEMS,
    MEASUREMENTS,
    OBSERVATIONS,
    ORDERS,
    SERIES,
    SETTLEMENTS,
    TRANSACTIONS,
)
from gridwright.workload.messages import SCALES, Scale, scale
from gridwright.workload.programs.program import program_of

TABLES: dict[str, DataTable] = {
    table.name: table
    for table in (
        TRANSACTIONS,
        SETTLEMENTS,
        ADDITIONS,
        ACCOUNTS,
        ORDERS,
        MEASUREMENTS,
        EXTRACT,
        OBSERVATIONS,
        SERIES,
        ITEMS,
    )
}


_RESERVE = 0.01
"""Part of a file system that stays free: a full one harms everyone on it."""
_UNCERTAINTY = 1.1
"""Arrow's own bytes, rows per unit that are only known on average, directory blocks."""


@dataclass(frozen=True, slots=True)
class SpaceNeeds:
    """Bytes that a run needs in each library at the same time."""

    data: int
    work: int
    util: int


def table_bytes(table: str, scale: Scale) -> int:
    """About how large the file of a table is."""
    found = TABLES[table]
    return int(scale.units[table] * found.rows_per_unit * found.row_bytes)


def needs(
    scale: Scale,
    missing: Sequence[tuple[str, int]],
    streams: Sequence[Sequence[str | None]],
    *,
    keep: bool,
) -> SpaceNeeds:
    """What a run needs: the tables that are missing, and in each stream its largest launch.

    `streams` are the tests by name, None for a command, of which nothing is known. With `keep`
    nothing is removed, so all launches count.
    """
    together = sum if keep else max
    return SpaceNeeds(
        data=int(_UNCERTAINTY * sum(table_bytes(name, scale) for name, _ in missing)),
        work=int(
            _UNCERTAINTY
            * sum(together([0, *(_written(test, "work", scale) for test in stream)]) for stream in streams)
        ),
        util=int(
            _UNCERTAINTY
            * sum(together([0, *(_written(test, "util", scale) for test in stream)]) for stream in streams)
        ),
    )


def _written(test: str | None, library: str, scale: Scale) -> int:
    if test is None:
        return 0
    found = program_of(test)
    factors: Mapping[str, float] = found.work if library == "work" else found.util
    return int(sum(factor * table_bytes(table, scale) for table, factor in factors.items()))


def check_space(libraries: Mapping[str, Path], needed: SpaceNeeds) -> None:
    """Check the free space of each file system against all that goes there.

    Raises GridwrightError that names every file system that is too small, and OSError.
    """
    shares: dict[int, list[str]] = {}
    for library, path in libraries.items():
        shares.setdefault(path.stat().st_dev, []).append(library)
    problems = []
    for names in shares.values():
        path = libraries[names[0]]
        status = os.statvfs(path)
        usable = int((status.f_bavail - _RESERVE * status.f_blocks) * status.f_frsize)
        required = {name: getattr(needed, name) for name in names}
        if status.f_blocks and sum(required.values()) > usable:
            parts = ", ".join(f"{format_bytes(size)} for {name}" for name, size in required.items())
            problems.append(
                Problem(
                    what=(
                        f"not enough space: the workload needs {format_bytes(sum(required.values()))} "
                        f"({parts}), "
                        f"{format_bytes(max(0, usable))} may be used"
                    ),
                    where=str(path),
                    remedy="free space, or choose a smaller --scale or fewer --streams",
                )
            )
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)


def data_bytes() -> dict[str, int]:
    """Bytes of all tables of one copy, by scale, from their rows and columns; needs no engine."""
    return {name: sum(table_bytes(table, scale(name)) for table in TABLES) for name in SCALES}
