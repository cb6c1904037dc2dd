"""The tables of a picture for terminals."""

from __future__ import annotations

from rich.console import Console

from gridwright.monitor.frame import Frame
from gridwright.monitor.views import notes, views
from gridwright.report.terminal.frame import framed, printed, say


@printed
def frame_text(console: Console, frame: Frame) -> None:
    """Print all tables that have rows."""
    for view in views(frame):
        if view.rows:
            console.print(framed(view, console))
    for line in notes(frame):
        say(console, line, "dim")
