"""What all that goes to the terminal shares: the console, lines of text, the frame of a table, and findings.

A table that keeps its words whole where there are few columns: without a frame first, then in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from gridwright.errors import Finding
from gridwright.foreign_text import sealed, visible, visible_in_line
from gridwright.report.table import Table
from gridwright.runs.records import FindingRecord

WIDE = 110
"""From this many columns on a table holds words beside its figures."""
FOLDED = 12
"""Columns that are left, at least, to what may be folded anywhere, such as a path."""


WIDEST = 1000
"""More columns than any table has."""
_STYLES = {"met": "green", "missed": "bold red", "failed": "bold red"}
"""Of cells, by their marks."""
_PLAIN = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u00d7": "x", "\u00b7": "-", "\u2026": "...", "\u2192": "->"}
    | {"\u2265": ">=", "\u2264": "<=", "\u00b5": "u", "\u2588": "#", "\u25b6": ">", "\u2502": "|"}
    | {"\u201c": '"', "\u201d": '"', "\u2019": "'"}
)
"""Dashes, signs, the parts of bars and quotation marks, by what stands for them."""


class FramedTable(RichTable):
    """A table in a frame.

    Where it has no room, the frame goes and headings are wrapped; then columns that do not fit beside the
    others stand below them, with the first column again.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print it in the widest form that fits."""
        if self.fits(console, options.max_width):
            yield from super().__rich_console__(console, options)
            return
        title = self.title
        for part in self._parts(options.max_width):
            narrow = self._narrow(part, options.max_width)
            narrow.title, title = title, None
            yield from narrow.__rich_console__(console, options)

    def fits(self, console: Console, width: int) -> bool:
        """Whether it has room for its longest cells within `width` columns."""
        return self.__rich_measure__(console, console.options.update(width=WIDEST)).maximum <= width

    def _parts(self, width: int) -> Iterator[Sequence[RichColumn]]:
        """The columns that stand beside each other, in their order."""
        least = {id(column): self._least(column) for column in self.columns}
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

    def _narrow(self, columns: Sequence[RichColumn], width: int) -> RichTable:
        """These columns without a frame, as wide as their cells need, or as there is room for."""
        widths = [self._least(column) for column in columns]
        left = width - sum(widths) - len(widths) + 1
        for index, column in enumerate(columns):
            more = max(0, min(left, self._most(column) - widths[index]))
            widths[index] += more
            left -= more
        table = RichTable(
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

    def _least(self, column: RichColumn) -> int:
        """The narrowest that a column can be with every word whole; figures are not wrapped."""
        heading = max(map(len, str(column.header).split()), default=0)
        texts = _texts(column)
        if column.overflow == "fold":
            return max(heading, min(FOLDED, max((text.cell_len for text in texts), default=0)))
        if column.justify == "right":
            return max([heading, *(text.cell_len for text in texts)])
        return max([heading, *(Text(word).cell_len for text in texts for word in text.plain.split())])

    def _most(self, column: RichColumn) -> int:
        return max([len(str(column.header)), *(text.cell_len for text in _texts(column))])


def _texts(column: RichColumn) -> list[Text]:
    return [cell for cell in column.cells if isinstance(cell, Text)]


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


def text_of(*tables: Table) -> str:
    """Tables below each other, as this terminal would show them."""
    return printed(Console.print)(*map(framed, tables), sep="\n")


def spelled(console: Console, text: str) -> str:
    """The text as the console can print it."""
    text = visible(text)
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(console.encoding, "replace").decode(console.encoding)
    return text


def say(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a line of text as it is, wrapped below itself."""
    line = Text(spelled(console, text), style=style)
    console.print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)


def framed(table: Table, console: Console | None = None) -> FramedTable:
    """A table in a frame, below its caption; for a console, what it lacks is spelled with what it has.

    For a console each cell goes on in the line below where there is no room for it. A cell has no line feeds:
    names of others would make rows of them.
    """
    shown = FramedTable(title=table.caption, title_justify="left", title_style="bold", pad_edge=False)
    for column in table.columns:
        shown.add_column(
            column.title,
            justify="left" if column.words else "right",
            overflow="fold" if column.wrap == "anywhere" else "ellipsis",
        )
    folds = [console is not None or column.wrap != "cut" for column in table.columns]
    for row in table.rows:
        cells = [
            Text(
                visible_in_line(cell.text if console is None else spelled(console, cell.text)),
                cell.style or _STYLES.get(cell.mark or "", ""),
                overflow="fold" if fold else None,
            )
            for cell, fold in zip(row.cells, folds, strict=True)
        ]
        shown.add_row(*cells, end_section=row.ends_section)
    return shown


def lined(console: Console, table: Table) -> FramedTable:
    """A table without its caption, for a console: without a frame where there is little room."""
    shown = framed(table, console)
    shown.title = None
    shown.pad_edge = True
    if console.width < WIDE:
        shown.box = box.SIMPLE_HEAD
        shown.padding = (0, 0)
        shown.pad_edge = False
        shown.show_edge = False
    return shown


def print_findings(console: Console, findings: Iterable[Finding | FindingRecord]) -> None:
    """Print each finding with what to do about it."""
    for finding in findings:
        style = {"error": "red", "warning": "yellow"}.get(finding.level, "dim")
        say(console, f"{finding.level} {finding.name}: {finding.text}", style)
        say(console, f"  {finding.remedy}", "dim")
