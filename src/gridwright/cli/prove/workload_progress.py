"""Shows the progress of the workload on stderr: one live line on a terminal, one per step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from gridwright.units import format_bytes, format_rate

Event = dict[str, Any]
_LIVE_S = 3.0
"""A node that sampled longer ago runs no launch now."""


def workload_display() -> WorkloadTerminal | WorkloadLines:
    """Choose the display that suits stderr."""
    return WorkloadTerminal() if sys.stderr.isatty() else WorkloadLines()


class Tally:
    """What is known of a run of the workload while it goes on."""

    def __init__(self) -> None:
        self.launches = 0
        self.streams = 0
        self.running = 0
        self.ended = 0
        self.failed = 0
        self.cpu_s = 0.0
        self.real_s = 0.0
        self.rate = 0.0
        self._seconds: dict[object, tuple[float, float, float]] = {}

    def take(self, event: Event) -> None:
        """Account for one event."""
        kind = event["event"]
        if kind == "workload":
            self.launches, self.streams = event["launches"], event["streams"]
        elif kind == "launch-started":
            self.running += 1
        elif kind == "launch":
            launch = event["launch"]
            self.running = max(0, self.running - 1)
            self.ended += 1
            self.failed += not launch["ok"]
            self.cpu_s += (launch["user_s"] or 0.0) + (launch["system_s"] or 0.0)
            self.real_s += launch["real_s"] or 0.0
        elif kind == "launch-lost":
            self.running -= event["begun"]
        elif kind == "sample":
            self._sample(event)

    def _sample(self, event: Event) -> None:
        """The rate over all nodes: of each its last second, whose libraries come one event after another."""
        node, now = event.get("node"), event["time"]
        at, moved, _ = self._seconds.get(node, (0.0, 0.0, 0.0))
        moved = moved if at == now else 0.0
        moved += event["read_bytes"] + event["written_bytes"]
        seconds = event["interval_s"]
        self._seconds[node] = (now, moved, moved / seconds if seconds > 0 else 0.0)
        self.rate = sum(rate for at, _, rate in self._seconds.values() if now - at < _LIVE_S)

    def __str__(self) -> str:
        waiting = self.launches - self.ended - self.running
        ratio = f"CPU/real {self.cpu_s / self.real_s:.2f}" if self.real_s else ""
        failed = f"{self.failed} failed" if self.failed else ""
        parts = [
            f"{self.ended} of {self.launches} launches done",
            failed,
            f"{self.running} running",
            f"{waiting} waiting",
            format_rate(self.rate),
            ratio,
        ]
        return ", ".join(part for part in parts if part)


class WorkloadLines:
    """One line per step, for logs and pipes."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._told = 0.0
        self._waited = False

    def take(self, event: Event) -> None:
        """Print what is worth a line."""
        self._tally.take(event)
        if event["event"] == "data" and event["state"] == "waiting" and not self._waited:
            self._waited = True
            self._print("data: another run is making it; waiting")
        elif line := describe(event):
            self._print(line)
        if event["event"] == "sample" and time.monotonic() - self._told > 10:
            self._told = time.monotonic()
            self._print(str(self._tally))

    def close(self) -> None:
        """Nothing is left to be tidied."""

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the display


class WorkloadTerminal:
    """A bar of launches with what goes on now; failures and findings above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            refresh_per_second=4,
        )
        self._tally = Tally()
        self._progress.start()
        self._task = self._progress.add_task("starting", total=None)

    def take(self, event: Event) -> None:
        """Move the bar, or print a message above it."""
        self._tally.take(event)
        kind = event["event"]
        if kind == "data":
            waiting = event["state"] == "waiting"
            text = "another run is making the data" if waiting else "making data"
            self._progress.update(
                self._task, description=text, completed=event.get("done", 0), total=event.get("of")
            )
        elif kind in {"launch-started", "launch", "sample", "running"}:
            self._progress.update(
                self._task,
                description=str(self._tally),
                completed=self._tally.ended,
                total=self._tally.launches,
            )
        if kind in {"finding", "problem"} or (kind == "launch" and not event["launch"]["ok"]):
            self._progress.console.print(describe(event), markup=False, style="yellow")

    def close(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        self._progress.stop()


def describe(event: Event) -> str:
    """A step in one line; empty if it is not worth one."""
    words = _WORDS.get(event["event"])
    return words(event) if words else ""


def _workload(event: Event) -> str:
    nodes = f" on {len(event['nodes'])} nodes" if "nodes" in event else ""
    return (
        f"workload: matrix {event['matrix']}, scale {event['scale']}, "
        f"{event['launches']} launches in {event['streams']} streams{nodes}"
    )


def _table(event: Event) -> str:
    return f"data: {event['table']} of copy {event['copy']}, {format_bytes(event['bytes'], binary=False)}"


def _ready(event: Event) -> str:
    made = f"{event['made']} of {event['tables']} tables made" if event["made"] else "there already"
    size = format_bytes(event["bytes"], binary=False)
    return f"data: {size} in {event['directory']}, {made} in {event['seconds']:.0f} s"


def _problem(event: Event) -> str:
    where = f"{event['where']}: " if event.get("where") else ""
    return f"error: {where}{event['what']}\n  {event['remedy']}"


def _finding(event: Event) -> str:
    return f"{event['level']}: {event['text']}\n  {event['remedy']}"


def _launch(event: Event) -> str:
    launch = event["launch"]
    name = f"stream {launch['stream']}: {launch['test']}"
    name += f" on {launch['node']}" if launch.get("job") else ""
    if not launch["ok"]:
        return f"{name}: failed: {launch['reason']}"
    ratio = launch["cpu_real_ratio"]
    text = f"{name}: {launch['real_s']:.2f} s"
    return f"{text}, CPU/real {ratio:.2f}, bound by {launch['bound_by']}" if ratio is not None else text


_WORDS: dict[str, Callable[[Event], str]] = {
    "workload": _workload,
    "table": _table,
    "ready": _ready,
    "launch": _launch,
    "problem": _problem,
    "finding": _finding,
}
