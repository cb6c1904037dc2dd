"""The cells of tables of a picture, and their rows in order (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridwright.report.table import Cell, Column, Table, TableRow
from gridwright.units import format_bytes

NOTHING = "-"
"""Stands for a figure that cannot be told."""


def last_words(title: str) -> Column:
    """The last column of a table, whose words may be many."""
    return Column(title, words=True, wrap="anywhere")


def sorted_rows(view: Table, column: int, tagged: Sequence[str] = ()) -> list[TableRow]:
    """Rows by a column, the largest figure first and words by the alphabet; those that are tagged above."""

    def order(row: TableRow) -> tuple[bool, bool, float, str]:
        cell = row.cells[column]
        return row.key not in tagged, cell.value is None, -(cell.value or 0.0), cell.text

    return sorted(view.rows, key=order)


def proportions(view: Table) -> Table:
    """The same with each rate as a part of the sum of its column; what is no rate stays as it is."""
    columns = [number for number, column in enumerate(view.columns) if column.title.endswith("/s")]
    sums = {
        number: sum(row.cells[number].value or 0.0 for row in view.rows) for number in columns if view.rows
    }

    def shown(number: int, cell: Cell) -> Cell:
        total = sums.get(number)
        if total is None or cell.value is None:
            return cell
        return replace(cell, text=f"{cell.value / total:.0%}" if total > 0 else "0%")

    rows = (
        replace(row, cells=tuple(shown(number, cell) for number, cell in enumerate(row.cells)))
        for row in view.rows
    )
    return replace(view, rows=tuple(rows))


def megabytes(rate: float | None) -> Cell:
    """A rate in MB/s."""
    return figure(None if rate is None else rate / 1e6)


def figure(value: float | None, places: int = 1) -> Cell:
    """A figure; three digits are enough, but for large ones."""
    return Cell(NOTHING if value is None else f"{value:.{0 if value >= 1000 else places}f}", value=value)


def part(value: float | None) -> Cell:
    """A part as percent."""
    return Cell(NOTHING if value is None else f"{value:.0%}", value=value)


def size(value: float | None) -> Cell:
    """Bytes."""
    return Cell(NOTHING if value is None else format_bytes(value), value=value)
