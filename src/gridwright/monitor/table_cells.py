"""Tables as whatever shows them has them: columns, and cells with what they sort by (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridwright.units import format_bytes

NOTHING = "-"
"""Stands for a figure that cannot be told."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A text, and the figure that it stands for; None for words and for what cannot be told."""

    text: str
    value: float | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row; `key` is the same in each picture."""

    key: str
    cells: tuple[TableCell, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A table: its name, columns of words, then columns of figures, then again one of words or none."""

    title: str
    words: tuple[str, ...]
    figures: tuple[str, ...]
    rows: tuple[TableRow, ...]
    last: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return (*self.words, *self.figures, *((self.last,) if self.last else ()))


def sorted_rows(view: View, column: int, tagged: Sequence[str] = ()) -> list[TableRow]:
    """Rows by a column, the largest figure first and words by the alphabet; those that are tagged above."""

    def order(row: TableRow) -> tuple[bool, bool, float, str]:
        cell = row.cells[column]
        return row.key not in tagged, cell.value is None, -(cell.value or 0.0), cell.text

    return sorted(view.rows, key=order)


def proportions(view: View) -> View:
    """The same with each rate as a part of the sum of its column; what is no rate stays as it is."""
    columns = [number for number, name in enumerate(view.columns) if name.endswith("/s")]
    sums = {
        number: sum(row.cells[number].value or 0.0 for row in view.rows) for number in columns if view.rows
    }

    def shown(number: int, cell: TableCell) -> TableCell:
        total = sums.get(number)
        if total is None or cell.value is None:
            return cell
        return replace(cell, text=f"{cell.value / total:.0%}" if total > 0 else "0%")

    rows = (
        replace(row, cells=tuple(shown(number, cell) for number, cell in enumerate(row.cells)))
        for row in view.rows
    )
    return replace(view, rows=tuple(rows))


def megabytes(rate: float | None) -> TableCell:
    """A rate in MB/s."""
    return figure(None if rate is None else rate / 1e6)


def figure(value: float | None, places: int = 1) -> TableCell:
    """A figure; three digits are enough, but for large ones."""
    return TableCell(NOTHING if value is None else f"{value:.{0 if value >= 1000 else places}f}", value)


def part(value: float | None) -> TableCell:
    """A part as percent."""
    return TableCell(NOTHING if value is None else f"{value:.0%}", value)


def size(value: float | None) -> TableCell:
    """Bytes."""
    return TableCell(NOTHING if value is None else format_bytes(value), value)
