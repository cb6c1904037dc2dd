"""A table as whatever shows it has it: columns, and rows of cells with what they sort by (pure).

Pages, terminals, Markdown and JSON all show these. A mark says how an operation of a library stands against
its requirement, and which phase speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from gridwright.runs.phase_record import PhaseRecord
    from gridwright.runs.records import LibraryRecord

Mark = Literal[
    "met", "missed", "failed", "cached", "disturbed", "partial", "untold", "falling", "unmeasured", "unjudged"
]


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


MARKS: dict[Mark, str] = {
    "met": "met",
    "missed": "missed",
    "failed": "failed",
    "cached": "cached, does not count",
    "disturbed": "disturbed",
    "partial": "nodes missing",
    "untold": "repeats cannot tell",
    "falling": "still falling",
    "unmeasured": "not measured",
    "unjudged": "not judged",
}


def mark_of(phase: PhaseRecord | None, required: float | None, judged: bool) -> Mark:
    """How one phase stands. Only a finished, uncached write or read is held against a requirement.

    One of several repeats is not: see `mark_of_repeats`. Where a node failed, it can be missed, but not met.
    """
    from gridwright.runs.verdict import JUDGED, is_whole, judged_figure

    if phase is not None and phase.status == "failed":
        return "failed"
    if phase is None or phase.per_core_bytes_per_s is None:
        return "unmeasured"
    if phase.cached or phase.doubtful:
        return "cached" if phase.cached else "disturbed"
    single = phase.repeat is None and phase.op in JUDGED and phase.status == "complete"
    if required is None or not judged or not single:
        return "unjudged"
    if judged_figure(phase) < required:
        return "missed"
    # Those that were left had the file system for themselves: what they reached proves nothing.
    return "partial" if phase.failed_nodes else "met" if is_whole(phase, required) else "falling"


def mark_of_repeats(library: LibraryRecord, op: str, judged: bool) -> Mark:
    """How the median of the repeats of an operation stands; where none counts, how the last stands."""
    from gridwright.runs.repeats import reaches
    from gridwright.runs.verdict import JUDGED, counting, is_whole, judged_figure

    phases = [phase for phase in library.phases if phase.op == op]
    required = library.requires_bytes_per_s_per_core
    counted = counting(phases)
    if not counted or any(phase.status == "failed" for phase in phases):
        return mark_of(phase_of(library, op), required, judged)
    if required is None or not judged or op not in JUDGED:
        return "unjudged"
    met = reaches([judged_figure(phase) for phase in counted], required)
    if met and any(phase.failed_nodes for phase in counted):
        return "partial"
    if met and not all(is_whole(phase, required) for phase in counted):
        return "falling"
    return "untold" if met is None else "met" if met else "missed"


def phase_of(library: LibraryRecord, op: str) -> PhaseRecord | None:
    """The phase that speaks for an operation: a failed one, else the best that counts, or the median repeat.

    This is how `gridwright.runs.verdict` judges. Without such a phase it is the last with a figure,
    which says why none counts, or the last.
    """
    from gridwright.runs.verdict import counting, judged_figure

    phases = [phase for phase in library.phases if phase.op == op]
    failed = [phase for phase in phases if phase.status == "failed"]
    measured = [phase for phase in phases if phase.per_core_bytes_per_s is not None]
    counted = counting(phases)
    whole = [phase for phase in counted if not phase.failed_nodes]
    if counted and not failed:
        if counted[0].repeat is not None:
            ordered = sorted(counted, key=judged_figure)
            return ordered[(len(ordered) - 1) // 2]
        return max(whole or counted, key=judged_figure)
    for choice in (failed, measured, phases):
        if choice:
            return choice[-1]
    return None
