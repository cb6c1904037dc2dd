"""Text for terminals of any kind: what their encoding lacks is spelled with what it has."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridwright.errors import Finding
from gridwright.foreign_text import visible
from gridwright.report.terminal.frame import framed_table, print_findings
from gridwright.runs.records import finding_records

WIDE = 110
"""From this many columns on a table holds words beside its figures."""
_PLAIN = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u00d7": "x", "\u00b7": "-", "\u2026": "...", "\u2192": "->"}
    | {"\u2265": ">=", "\u2264": "<=", "\u00b5": "u", "\u2588": "#", "\u25b6": ">", "\u2502": "|"}
    | {"\u201c": '"', "\u201d": '"', "\u2019": "'"}
)
"""Dashes, signs, the parts of bars and quotation marks, by what stands for them."""


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


def cell(console: Console, text: str, style: str = "") -> Text:
    """A cell that reads no markup and folds what is too long for it."""
    return Text(spelled(console, text), style=style, overflow="fold")


def lined_table(console: Console, left: Iterable[str], right: Iterable[str]) -> Table:
    """An empty table without a name for this console: without a frame where there is little room."""
    table = framed_table("", [*left], [*right])
    table.title = None
    table.pad_edge = True
    if console.width < WIDE:
        table.box = box.SIMPLE_HEAD
        table.padding = (0, 0)
        table.pad_edge = False
        table.show_edge = False
    return table


def fits(console: Console, table: Table) -> bool:
    """Whether the table has room for its longest cells."""
    return console.measure(table, options=console.options.update(width=1000)).maximum <= console.width


def say_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print findings, the gravest first."""
    records = [
        record.model_copy(
            update={"text": spelled(console, record.text), "remedy": spelled(console, record.remedy)}
        )
        for record in finding_records(findings)
    ]
    print_findings(console, records)
