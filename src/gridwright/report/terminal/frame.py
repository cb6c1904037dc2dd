"""What all that goes to the terminal shares: the console, the frame of a table, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.table import Table

from gridwright.foreign_text import sealed, visible
from gridwright.report.terminal.table import FramedTable
from gridwright.runs.records import FindingRecord

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
            each if each.control else Segment(visible(each.text), each.style, each.control) for each in buffer
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
