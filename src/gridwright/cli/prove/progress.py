"""Shows progress on stderr: a bar per phase on a terminal, one line per step elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gridwright.units import format_bytes, format_rate

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Event = dict[str, Any]


def iotest_display() -> TerminalDisplay | LineDisplay:
    """Choose the display that suits stderr."""
    return TerminalDisplay() if sys.stderr.isatty() else LineDisplay()


def _describe(phase: Event) -> str:
    figures = phase["phase"]
    if figures["op"] == "metadata":
        rate = figures["ops_per_s"]
        return f"{rate:.0f} operations/s" if rate else "no figure"
    rate, core = figures["rate_last_bytes_per_s"], figures["per_core_bytes_per_s"]
    if rate is None:
        return f"{figures['status']}, no figure"
    text = f"{format_rate(rate)}, {format_rate(core, per_core=True)}"
    return f"{text}, cached: does not count" if figures["cached"] else text


class LineDisplay:
    """One line per step, for logs and pipes."""

    def __init__(self) -> None:
        self._library = ""

    def take(self, event: Event) -> None:
        """Print what is worth a line."""
        kind = event["event"]
        if kind == "library":
            self._library = event["library"]
            nodes = f" on each of {event['nodes']} nodes" if event["nodes"] > 1 else ""
            self._print(f"{self._library}: testing {event['path']} with {event['streams']} streams{nodes}")
        elif kind == "phase":
            self._print(f"{self._library}: {event['op']} ({event['used']['streams']} streams)")
        elif kind == "result":
            self._print(f"{self._library}: {event['phase']['op']}: {_describe(event)}")
        elif kind in {"finding", "problem"}:
            self._print(_message(event))

    def close(self) -> None:
        """Nothing is left to be tidied."""

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the display


class TerminalDisplay:
    """A bar per phase with the rate of the last second."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self._progress: Progress = Progress(
            TextColumn("{task.fields[library]:<6} {task.description:<9}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
        )
        self._progress.start()
        self._task: TaskID | None = None
        self._library = ""
        self._rate = ""
        self._phase: Event = {}

    def take(self, event: Event) -> None:
        """Move the bar, or print a message above it."""
        kind = event["event"]
        if kind == "library":
            self._library = event["library"]
        elif kind == "phase":
            self._begin(event)
        elif kind == "sample":
            self._sample(event)
        elif kind == "progress":
            self._move(event)
        elif kind == "result" and self._task is not None:
            self._progress.update(self._task, completed=1.0, total=1.0, note=_describe(event))
            self._progress.stop_task(self._task)
        elif kind in {"finding", "problem"}:
            self._console.print(_message(event), style=_STYLES[event.get("level", "error")], markup=False)
        self._progress.refresh()

    def close(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._progress.stop()

    def _begin(self, event: Event) -> None:
        self._phase, self._rate = event, ""
        self._task = self._progress.add_task(event["op"], total=1.0, library=self._library, note="preparing")

    def _sample(self, event: Event) -> None:
        # Of several nodes, each gives its own; their progress has the rate of all.
        if event["interval_s"] > 0 and not event.get("node"):
            moved = event["read_bytes"] + event["written_bytes"]
            self._rate = format_rate(moved / event["interval_s"]) if moved else ""

    def _move(self, event: Event) -> None:
        if self._task is None:
            return
        moved = event["read_bytes"] + event["written_bytes"]
        if event.get("rate_bytes_per_s"):
            self._rate = format_rate(event["rate_bytes_per_s"])
        note = "flushing to disk" if event["syncing"] else self._rate
        if event["operations"]:
            note = f"{event['operations']} operations"
        self._progress.update(
            self._task,
            completed=self._done(event, moved),
            note=f"{note}  {format_bytes(moved, binary=False)}",
        )

    def _done(self, event: Event, moved: int) -> float:
        """Part of the phase that is done: by bytes or by time, whichever is nearer its end."""
        parts = [0.0]
        if self._phase.get("limit_bytes"):
            parts.append(moved / (self._phase["limit_bytes"] * self._phase["used"]["streams"]))
        if self._phase.get("limit_s"):
            parts.append(event["elapsed_s"] / self._phase["limit_s"])
        return min(0.99, max(parts))


_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def _message(event: Event) -> str:
    if event["event"] == "problem":
        where = f"{event['where']}: " if event.get("where") else ""
        return f"error: {where}{event['what']}\n  {event['remedy']}"
    return f"{event['level']}: {event['text']}\n  {event['remedy']}"
