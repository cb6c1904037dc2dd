"""The live view: pictures in the terminal, one after the other, of a grid or of a recording."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar, Protocol, cast

from rich.console import JustifyMethod
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from gridwright.errors import GridwrightError
from gridwright.foreign_text import visible, visible_in_line
from gridwright.monitor.frame import Frame
from gridwright.monitor.recording import Recording
from gridwright.monitor.views import Chosen, file_systems, notes, proportions, sorted_rows, views
from gridwright.report.table import Column, Table
from gridwright.report.terminal.frame import framed

MINUTE = 60
"""Pictures that Tab goes on by in a recording: ltop's minute, at a picture each second."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Pictures(Protocol):
    """Where pictures come from."""

    def next(self) -> Frame | None:
        """The next picture; None while there is no other one. Raises GridwrightError; waits for nothing."""

    @property
    def state(self) -> str:
        """What a reader should know of them, in a few words."""


class Recorded(Pictures, Protocol):
    """Pictures that can be recorded while they are watched."""

    def record(self) -> str:
        """Begin a recording, or end the one that goes on; says which, in words. Raises GridwrightError."""


class Player:
    """Pictures of a recording, forward and backward."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.at = -1

    @property
    def state(self) -> str:
        """Which picture it is."""
        return f"picture {self.at + 1} of {len(self._recording)}"

    def next(self) -> Frame | None:
        """The next picture; none behind the last one."""
        return self.go(1) if self.at + 1 < len(self._recording) else None

    def go(self, steps: int) -> Frame:
        """The picture so many steps away, the first or the last one where there are not as many."""
        self.at = min(max(0, self.at + steps), len(self._recording) - 1)
        return self._recording.frame(self.at)


class TopApp(App[None]):
    """Shows libraries above, and below them one of the other tables.

    `failure` is what ended it, `stopped` whether a signal did.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #libraries, #notes { height: auto; padding: 0 1; }
    #head { background: $panel; }
    #notes { color: $text-muted; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("z", "table", "Next table"),
        Binding("less_than_sign", "sort(-1)", "Sort", key_display="<"),
        Binding("greater_than_sign", "sort(1)", "Sort", key_display=">"),
        Binding("space", "tag", "Tag", priority=True),
        Binding("p", "pause", "Pause"),
        Binding("c", "servers", "Servers"),
        Binding("f", "filesystem", "File system"),
        Binding("P", "proportions", "Parts", key_display="P"),
        Binding("R", "record", "Record", key_display="R"),
        Binding("left", "go(-1)", "Back", priority=True),
        Binding("right", "go(1)", "On", priority=True),
        Binding("tab", f"go({MINUTE})", "Minute on", priority=True),
        Binding("shift+tab", f"go(-{MINUTE})", "Minute back", priority=True),
    ]

    def __init__(self, pictures: Pictures, interval_s: float) -> None:
        super().__init__()
        self.failure: GridwrightError | None = None
        self.stopped = False
        self.paused = False
        self._pictures = pictures
        self._interval_s = interval_s
        self._frame: Frame | None = None
        self._shown = ""
        self._chosen = Chosen()
        self._parts = False
        self._columns: dict[str, int] = {}
        self._tagged: dict[str, set[str]] = {}
        self._title_shown = ""

    def compose(self) -> ComposeResult:
        """The parts, from above."""
        yield Static(id="head")
        yield Static(id="libraries")
        yield DataTable(id="table", cursor_type="row")
        yield Static(id="notes")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to show pictures."""
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, self._stop)
        self.query_one(DataTable).focus()
        self._tick()
        self.set_interval(self._interval_s, self._tick)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Going back and on is for recordings, and recording for what is live."""
        if action == "record":
            return hasattr(self._pictures, "record")
        return action != "go" or isinstance(self._pictures, Player)

    def action_table(self) -> None:
        """Show the next table below the libraries."""
        if self._frame is None or (shown := self._view()) is None:
            return
        titles = [view.caption for view in self._below(self._frame)]
        self._shown = titles[(titles.index(shown.caption) + 1) % len(titles)]
        self._show()

    def action_servers(self) -> None:
        """Show a row for each server, or for each target."""
        self._chosen = replace(self._chosen, servers=not self._chosen.servers)
        self._show()

    def action_filesystem(self) -> None:
        """Show the targets of the next file system, or of all."""
        names = ["", *(file_systems(self._frame) if self._frame else ())]
        at = names.index(self._chosen.filesystem) if self._chosen.filesystem in names else 0
        self._chosen = replace(self._chosen, filesystem=names[(at + 1) % len(names)])
        self._show()

    def action_proportions(self) -> None:
        """Show rates as parts of their sum, or as they are."""
        self._parts = not self._parts
        self._show()

    def action_record(self) -> None:
        """Begin a recording, or end it."""
        try:
            self.notify(visible(cast("Recorded", self._pictures).record()), markup=False)
        except GridwrightError as error:
            self.notify(visible(str(error)), severity="error", markup=False)
        self._show()

    def action_sort(self, step: int) -> None:
        """Sort by the column to the left or to the right."""
        if view := self._view():
            column = self._columns.get(view.caption, 0) + step
            self._columns[view.caption] = column % len(view.columns)
            self._show()

    def action_tag(self) -> None:
        """Keep the row at the cursor above the others, or let it go."""
        key = self._key_at_cursor()
        if (view := self._view()) and key is not None:
            self._tagged.setdefault(view.caption, set()).symmetric_difference_update({key})
            self._show()

    def action_pause(self) -> None:
        """Stop, and go on."""
        self.paused = not self.paused
        self._show()

    def action_go(self, steps: int) -> None:
        """Go to another picture of a recording, and stay there."""
        if isinstance(self._pictures, Player):
            self.paused = True
            self._take(self._pictures.go(steps))

    def _stop(self) -> None:
        self.stopped = True
        self.exit()

    def _tick(self) -> None:
        if self.paused and isinstance(self._pictures, Player):
            return
        if not self.query("#head"):
            # The view is taken apart, and the timer has not ended yet.
            return
        try:
            # While it is paused, too: samplers are to be read, and what is recorded goes on.
            frame = self._pictures.next()
        except GridwrightError as error:
            self.failure = error
            self.exit()
            return
        if frame is not None and not self.paused:
            self._take(frame)
        elif self._frame is None:
            self.query_one("#head", Static).update("gridwright top: samplers start")

    def _take(self, frame: Frame) -> None:
        self._frame = frame
        self._show()

    def _view(self) -> Table | None:
        if self._frame is None:
            return None
        below = self._below(self._frame)
        return next((view for view in below if view.caption == self._shown), below[0])

    def _below(self, frame: Frame) -> list[Table]:
        """The tables of which one is shown below the libraries."""
        return views(frame, self._chosen)[1:]

    def _key_at_cursor(self) -> str | None:
        table = self.query_one(DataTable)
        if not table.is_valid_coordinate(table.cursor_coordinate):
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _show(self) -> None:
        frame, view = self._frame, self._view()
        if frame is None or view is None:
            return
        self.query_one("#head", Static).update(Text(visible(self._heading(frame, view))))
        libraries = views(frame)[0]
        above = self.query_one("#libraries", Static)
        above.display = bool(libraries.rows)
        above.update(framed(libraries, self.console))
        below = self.query_one("#notes", Static)
        below.update(Text(visible("\n".join(notes(frame, self._chosen)))))
        self._show_table(view)

    def _heading(self, frame: Frame, view: Table) -> str:
        at = datetime.fromtimestamp(frame.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        away = sum(bool(row.absent) for row in frame.nodes)
        column = view.columns[self._columns.get(view.caption, 0)].title
        parts = [at, f"{len(frame.nodes)} nodes", *([f"{away} away"] if away else []), self._pictures.state]
        parts += ["paused"] if self.paused else []
        parts += [self._chosen.filesystem, *(["rates as parts of their sum"] if self._parts else [])]
        return " · ".join(filter(None, [*parts, f"{view.caption} by {column}"]))

    def _show_table(self, view: Table) -> None:
        table, key = self.query_one(DataTable), self._key_at_cursor()
        view = proportions(view) if self._parts else view
        if self._title_shown != view.caption:
            table.clear(columns=True)
            table.add_columns(*(_aligned(column.title, _side(column)) for column in view.columns))
            self._title_shown, key = view.caption, None
        table.clear()
        tagged = self._tagged.get(view.caption, set())
        rows = sorted_rows(view, self._columns.get(view.caption, 0), tuple(tagged))
        for row in rows:
            style = "bold" if row.key in tagged else ""
            cells = [
                _aligned(cell.text, _side(column), f"{style} {cell.style}")
                for cell, column in zip(row.cells, view.columns, strict=True)
            ]
            table.add_row(*cells, key=row.key)
        keys = [row.key for row in rows]
        if key in keys:
            table.move_cursor(row=keys.index(key))


def _side(column: Column) -> JustifyMethod:
    """Words stand left, figures right."""
    return "left" if column.words else "right"


def _aligned(text: str, side: JustifyMethod, style: str = "") -> Text:
    return Text(visible_in_line(text), style.strip(), justify=side)
