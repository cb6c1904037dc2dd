"""The `catalog.csv` beside a grid spec that `gridwright catalog refresh` writes: one row per type.

Its columns are those of the packaged types, then one column of USD per hour for each region. Rows
go before the packaged ones of the same name.
"""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.catalog.instance_files import INSTANCE_COLUMNS, Beside, instance_from
from gridwright.catalog.instances import InstanceType
from gridwright.catalog.prices import Price
from gridwright.errors import GridwrightError, Problem

FILE = "catalog.csv"
_REMEDY = "Write the file again with gridwright catalog refresh, or remove it."


@dataclass(slots=True)
class Refreshed:
    """Types by name, and their prices by region and name."""

    instances: dict[str, InstanceType] = field(default_factory=dict)
    prices: dict[str, dict[str, Price]] = field(default_factory=dict)


def read_refreshed(path: Path, beside: Beside) -> Refreshed:
    """Read such a file; raises GridwrightError with every damaged row and its line."""
    found = Refreshed()
    problems: list[Problem] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            head = tuple(next(reader, ()))
            width = len(INSTANCE_COLUMNS)
            if head[:width] != INSTANCE_COLUMNS:
                raise GridwrightError(Problem("has other columns than expected", str(path), remedy=_REMEDY))
            for cells in reader:
                try:
                    _take(cells, head[width:], beside, found)
                except (ValueError, KeyError, IndexError):
                    where = f"{path}:{reader.line_num}"
                    problems.append(Problem("is not a row of the catalogue", where, remedy=_REMEDY))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GridwrightError(Problem(f"cannot be read: {error}", str(path), remedy=_REMEDY)) from error
    if problems:
        raise GridwrightError(*problems)
    return found


def _take(cells: list[str], regions: tuple[str, ...], beside: Beside, found: Refreshed) -> None:
    width = len(INSTANCE_COLUMNS)
    instance = instance_from(cells[:width], beside)
    if len(cells) != width + len(regions) or instance.cores < 1 or instance.memory_bytes < 1:
        raise ValueError(cells)
    found.instances[instance.name] = instance
    for region, cell in zip(regions, cells[width:], strict=True):
        if cell:
            found.prices.setdefault(region, {})[instance.name] = Price(float(cell), instance.source)


def refuse_unwritable(path: Path) -> None:
    """Raise GridwrightError (INPUT) where no file can be made beside `path`: fetching takes minutes."""
    if not path.parent.is_dir():
        raise _unwritable(path, "there is no such directory")
    if not os.access(path.parent, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: Path, why: str) -> GridwrightError:
    return GridwrightError(Problem(f"cannot be written: {why}", str(path), remedy="Choose another --out."))


def write_refreshed(path: Path, rows: Iterable[dict[str, object]], regions: Iterable[str]) -> None:
    """Write such a file whole or not at all; rows have INSTANCE_COLUMNS and regions as keys."""
    beside = path.with_name(f"{path.name}.partial")
    try:
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*INSTANCE_COLUMNS, *regions], restval="", lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow({key: "" if value is None else value for key, value in row.items()})
        beside.replace(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
