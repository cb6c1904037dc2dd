"""What all that goes to the terminal shares: the console, the frame of a table, and findings.

A table that keeps its words whole where there are few columns: without a frame first, then in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from gridwright.foreign_text import sealed, visible, visible_in_line
from gridwright.runs.records import FindingRecord

FOLDED = 12
"""Columns that are left, at least, to what may be folded anywhere, such as a path."""


WIDEST = 1000
"""More columns than any table has."""


class FramedTable(Table):
    """A table in a frame.

    Where it has no room, the frame goes and headings are wrapped; then columns that do not fit beside the
    others stand below them, with the first column again. A cell has no line feeds: names of others would make
    rows of them.
    """

    def add_row(
        self,
        *renderables: RenderableType | None,
        style: StyleType | None = None,
        end_section: bool = False,
    ) -> None:
        """Add a row."""
        super().add_row(*map(_in_line, renderables), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print it in the widest form that fits."""
        if self.fits(console, options.max_width):
            yield from super().__rich_console__(console, options)
            return
        title = self.title
        for part in self._parts(console, options.max_width):
            narrow = self._narrow(console, part, options.max_width)
            narrow.title, title = title, None
            yield from narrow.__rich_console__(console, options)

    def fits(self, console: Console, width: int) -> bool:
        """Whether it has room for its longest cells within `width` columns."""
        return self.__rich_measure__(console, console.options.update(width=WIDEST)).maximum <= width

    def _parts(self, console: Console, width: int) -> Iterator[Sequence[Column]]:
        """The columns that stand beside each other, in their order."""
        least = {id(column): self._least(console, column) for column in self.columns}
        has_key = bool(self.columns) and self.columns[0].justify != "right"
        key = list(self.columns[:1]) if has_key else []
        part, used = [*key], sum(least[id(each)] + 1 for each in key)
        for column in self.columns[len(key) :]:
            if used + least[id(column)] > width and len(part) > len(key):
                yield part
                part, used = [*key], sum(least[id(each)] + 1 for each in key)
            part.append(column)
            used += least[id(column)] + 1
        yield part

    def _narrow(self, console: Console, columns: Sequence[Column], width: int) -> Table:
        """These columns without a frame, as wide as their cells need, or as there is room for."""
        widths = [self._least(console, column) for column in columns]
        left = width - sum(widths) - len(widths) + 1
        for index, column in enumerate(columns):
            more = max(0, min(left, self._most(console, column) - widths[index]))
            widths[index] += more
            left -= more
        table = Table(
            *(
                replace(each, width=size, _cells=[], _index=0)
                for each, size in zip(columns, widths, strict=True)
            ),
            title_justify=self.title_justify,
            title_style=self.title_style,
            box=box.SIMPLE_HEAD,
            padding=(0, 0),
            pad_edge=False,
            show_edge=False,
        )
        cells = zip(*(column.cells for column in columns), strict=True)
        for row, of_row in zip(self.rows, cells, strict=True):
            table.add_row(*of_row, style=row.style, end_section=row.end_section)
        return table

    def _least(self, console: Console, column: Column) -> int:
        """The narrowest that a column can be with every word whole; figures are not wrapped."""
        heading = max(map(len, str(column.header).split()), default=0)
        texts = [_text(console, cell) for cell in column.cells]
        if column.overflow == "fold":
            return max(heading, min(FOLDED, max((text.cell_len for text in texts), default=0)))
        if column.justify == "right":
            return max([heading, *(text.cell_len for text in texts)])
        return max([heading, *(Text(word).cell_len for text in texts for word in text.plain.split())])

    def _most(self, console: Console, column: Column) -> int:
        return max([len(str(column.header)), *(_text(console, cell).cell_len for cell in column.cells)])


def _text(console: Console, cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell))


def _in_line(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return visible_in_line(cell)
    if isinstance(cell, Text) and "\n" in cell.plain:
        shown = cell.copy()
        shown.plain = visible_in_line(cell.plain)
        return shown
    return cell


Asked = ParamSpec("Asked")
_PLAIN_WIDTH = 120
"""Columns of a table that goes to a pipe or a file."""


class TerminalConsole(Console):
    """A console on which no text commands the terminal: neither by control characters nor by markup.

    Its own codes come after that.
    """

    def __init__(
        self, *, stderr: bool = False, width: int | None = None, no_color: bool | None = None
    ) -> None:
        super().__init__(
            stderr=stderr, width=width, no_color=no_color, highlight=False, markup=False, emoji=False
        )

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (
            segment if segment.control else Segment(visible(segment.text), segment.style, segment.control)
            for segment in buffer
        )
        return sealed(super()._render_buffer(shown))


def terminal_console() -> Console:
    """The console; plain and of a fixed width where it is no terminal."""
    console = TerminalConsole()
    if console.is_terminal:
        return console
    return TerminalConsole(width=_PLAIN_WIDTH, no_color=True)


def printed(write: Callable[Concatenate[Console, Asked], None]) -> Callable[Asked, str]:
    """Have a function that prints on a console return that text instead, as this terminal would show it."""

    @wraps(write)
    def text(*args: Asked.args, **kwargs: Asked.kwargs) -> str:
        console = terminal_console()
        with console.capture() as captured:
            write(console, *args, **kwargs)
        return captured.get()

    return text


def text_of(*parts: RenderableType) -> str:
    """Tables and other parts below each other, as this terminal would show them."""
    return printed(Console.print)(*parts, sep="\n")


def framed_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """An empty table; words stand left, figures right."""
    table = FramedTable(title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def print_findings(console: Console, findings: Iterable[FindingRecord]) -> None:
    """Print each finding with what to do about it."""
    for finding in findings:
        style = {"error": "red", "warning": "yellow"}.get(finding.level, "dim")
        console.print(f"{finding.level} {finding.name}: {finding.text}", style=style, markup=False)
        console.print(f"  {finding.remedy}", style="dim", markup=False)
