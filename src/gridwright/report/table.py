"""A table as whatever shows it has it: columns, and rows of cells with what they sort by (pure).

Pages, terminals, Markdown and JSON all show these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from gridwright.report.marks import Mark

Shown = TypeVar("Shown")

Wrap = Literal["cut", "fold", "anywhere"]
"""What becomes of a cell for which a terminal has no room: it is cut, or goes on in the line below. Below a
column that wraps anywhere, words are folded before columns have to stand below each other."""

_NARROW = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    mark: Mark | None = None
    """A page draws it as a sign beside the text, a terminal as a colour."""
    value: float | None = None
    """The figure that the text stands for; None for words and for what cannot be told."""
    style: str = ""
    """On a terminal, beside what the mark says."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; words stand left, figures right."""

    title: str
    words: bool = False
    wrap: Wrap = "cut"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row; `key` is the same in each picture of a grid. A section ends with a line below it."""

    key: str
    cells: tuple[Cell, ...]
    ends_section: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table. The first column heads its row."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    folded: bool = False
    """Shown as its caption, until it is opened."""

    @property
    def wide(self) -> bool:
        """Whether it takes the width of the page; two narrow ones stand side by side."""
        return len(self.columns) > _NARROW

    def only(self, titles: Mapping[str, str | Column], caption: str = "") -> Table:
        """The columns with these titles, in this order, each by another title or as another column."""
        places = {column.title: place for place, column in enumerate(self.columns)}
        chosen = [places[title] for title in titles]
        columns = (
            shown if isinstance(shown, Column) else replace(self.columns[place], title=shown)
            for place, shown in zip(chosen, titles.values(), strict=True)
        )
        rows = (replace(row, cells=tuple(row.cells[place] for place in chosen)) for row in self.rows)
        return Table(caption, tuple(columns), tuple(rows))

    def without(self, *titles: str) -> Table:
        """The same without the columns with these titles."""
        kept = {column.title: column.title for column in self.columns if column.title not in titles}
        return replace(self.only(kept, self.caption), note=self.note, folded=self.folded)


def columns_of(
    words: Iterable[str | Column], figures: Iterable[str] = (), *more: str | Column
) -> tuple[Column, ...]:
    """Columns of words, then those of figures, then again some of words."""
    left, right = (
        [each if isinstance(each, Column) else Column(each, words=True) for each in group]
        for group in (words, more)
    )
    return (*left, *map(Column, figures), *right)


def rows_table(
    caption: str, columns: tuple[Column, ...], *sections: Iterable[Sequence[str | Cell]], note: str = ""
) -> Table:
    """A table by its rows; a line stands between sections."""
    rows: list[TableRow] = []
    for section in sections:
        if rows:
            rows[-1] = replace(rows[-1], ends_section=True)
        rows += [keyed_row("", *row) for row in section]
    return Table(caption, columns, tuple(rows), note)


def keyed_row(key: str, *cells: str | Cell) -> TableRow:
    """A row of cells; words alone need be no cell."""
    return TableRow(key, tuple(each if isinstance(each, Cell) else Cell(each) for each in cells))


def table_of(
    caption: str, rows: Iterable[Shown], columns: Mapping[str, Callable[[Shown], str | Cell]], words: str = ""
) -> Table:
    """A table by its columns; `words` names those that hold words."""
    heads = tuple(Column(title, title in words.split("|")) for title in columns)
    return rows_table(caption, heads, ([value(row) for value in columns.values()] for row in rows))
