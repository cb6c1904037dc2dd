"""What `gridwright catalog refresh` writes beside a grid spec: `catalog.csv` and `catalog-prices.csv`.

Columns of the first are those of the packaged types, then one column of USD per hour for each region. The
second has prices of storage, and of Oracle's cores and memory. Rows go before the packaged ones of the
same name.
"""

from __future__ import annotations

import csv
import errno
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from gridwright.catalog.facts import source
from gridwright.catalog.instances import INSTANCE_COLUMNS, Beside, InstanceType, instance_from, read_beside
from gridwright.catalog.prices import Price
from gridwright.errors import GridwrightError, Problem

FILE = "catalog.csv"
PRICES_FILE = "catalog-prices.csv"
_REMEDY = "Write the file again with gridwright catalog refresh, or remove it."


_NOTHING_BESIDE = Beside({}, {}, {}, {})


@dataclass(slots=True)
class Refreshed:
    """Types by name, and their prices by region and name."""

    instances: dict[str, InstanceType] = field(default_factory=dict)
    prices: dict[str, dict[str, Price]] = field(default_factory=dict)


def read_refreshed(path: Path, beside: Beside) -> Refreshed:
    """Read such a file; raises GridwrightError with every damaged row and its line."""
    refreshed = Refreshed()
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
                    _take(cells, head[width:], beside, refreshed)
                except (ValueError, KeyError, IndexError):
                    where = f"{path}:{reader.line_num}"
                    problems.append(Problem("is not a row of the catalogue", where, remedy=_REMEDY))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GridwrightError(Problem(f"cannot be read: {error}", str(path), remedy=_REMEDY)) from error
    if problems:
        raise GridwrightError(*problems)
    return refreshed


def _take(cells: list[str], regions: tuple[str, ...], beside: Beside, refreshed: Refreshed) -> None:
    width = len(INSTANCE_COLUMNS)
    instance = instance_from(cells[:width], beside)
    if len(cells) != width + len(regions) or instance.cores < 1 or instance.memory_bytes < 1:
        raise ValueError(cells)
    refreshed.instances[instance.name] = instance
    for region, cell in zip(regions, cells[width:], strict=True):
        if cell:
            refreshed.prices.setdefault(region, {})[instance.name] = Price(float(cell), instance.source)


def refuse_unreadable(row: Mapping[str, object]) -> None:
    """Raise ValueError, KeyError or IndexError for a row that could not be read again."""
    cells = [str(plain(row.get(column))) for column in INSTANCE_COLUMNS]
    _take(cells, (), _NOTHING_BESIDE, Refreshed())


def refuse_unwritable(path: Path) -> None:
    """Raise GridwrightError (INPUT) where no file can be made beside `path`: fetching takes minutes."""
    if not path.parent.is_dir():
        raise _unwritable(path, "there is no such directory")
    if not os.access(path.parent, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: Path, why: str) -> GridwrightError:
    return GridwrightError(Problem(f"cannot be written: {why}", str(path), remedy="Choose another --out."))


def write_refreshed(path: Path, rows: Iterable[dict[str, object]], regions: Iterable[str]) -> None:
    """Write such a file whole or not at all; rows have INSTANCE_COLUMNS and regions as keys.

    Raises GridwrightError where it cannot be written, or what was written could not be read again.
    """

    def lines() -> Iterator[Iterable[object]]:
        columns = [*INSTANCE_COLUMNS, *regions]
        yield columns
        for row in rows:
            yield ["" if row.get(key) is None else row[key] for key in columns]

    _write(path, lines(), lambda partial: read_refreshed(partial, read_beside()))


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row of `catalog-prices.csv`: USD of a component, everywhere where no region is said.

    Units are those of the packaged storage-prices.csv, and hours for `core-hour`, `gib-hour` and
    `disk-tb-hour` of Oracle's shapes.
    """

    provider: str
    item: str
    component: str
    region: str
    usd: float
    source: str
    date: str

    @property
    def price(self) -> Price:
        """As the catalogue has it."""
        return Price(self.usd, source(self.source, self.date))


_PRICE_COLUMNS = [each.name for each in fields(PriceRow)]


def read_price_rows(path: Path) -> list[PriceRow]:
    """Read such a file; raises GridwrightError with every damaged row and its line."""
    price_rows: list[PriceRow] = []
    problems: list[Problem] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            if next(reader, []) != _PRICE_COLUMNS:
                raise GridwrightError(Problem("has other columns than expected", str(path), remedy=_REMEDY))
            for cells in reader:
                try:
                    provider, item, component, region, usd, text, date = cells
                    if not 0 <= float(usd) < math.inf:
                        raise ValueError(usd)
                    price_rows.append(PriceRow(provider, item, component, region, float(usd), text, date))
                except ValueError:
                    where = f"{path}:{reader.line_num}"
                    problems.append(Problem("is not a row of prices", where, remedy=_REMEDY))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise GridwrightError(Problem(f"cannot be read: {error}", str(path), remedy=_REMEDY)) from error
    if problems:
        raise GridwrightError(*problems)
    return price_rows


def write_prices(path: Path, rows: Iterable[PriceRow]) -> None:
    """Write such a file whole or not at all. Raises GridwrightError."""
    ordered = sorted(rows, key=lambda each: (each.provider, each.item, each.component, each.region))
    cells = ([plain(cell) for cell in astuple(row)] for row in ordered)
    _write(path, [_PRICE_COLUMNS, *cells], read_price_rows)


def _write(path: Path, lines: Iterable[Iterable[object]], read: Callable[[Path], object]) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        try:
            with partial.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows(lines)
                file.flush()
                os.fsync(file.fileno())
            read(partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error


def plain(value: object) -> object:
    """Spell a value the same way on every machine: whole numbers without a point, yes as 1."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return f"{value:.12g}"
    return "" if value is None else value
