"""The tables of a picture for terminals."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gridwright.monitor.frame import Frame
from gridwright.monitor.table_cells import View
from gridwright.monitor.views import notes, views
from gridwright.report.terminal.frame import framed_table, printed
from gridwright.report.terminal.spelling import cell, say


@printed
def frame_text(console: Console, frame: Frame) -> None:
    """Print all tables that have rows."""
    for view in views(frame):
        if view.rows:
            console.print(view_table(console, view))
    for line in notes(frame):
        say(console, line, "dim")


def view_table(console: Console, view: View) -> Table:
    """One table."""
    table = framed_table(view.title, view.words, view.figures)
    if view.last:
        table.add_column(view.last, overflow="fold")
    for row in view.rows:
        table.add_row(*(cell(console, each.text, each.style) for each in row.cells))
    return table
