"""Shows the progress of the workload on stderr: one live line on a terminal, one per step elsewhere."""

from __future__ import annotations

import sys
import time

import typer

from gridwright.cli.prove.progress import bar_width, event_message
from gridwright.cli.verbosity import is_quiet, say
from gridwright.errors import Finding, Problem
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import (
    DataProgress,
    DataReady,
    LaunchEnded,
    LaunchLost,
    LaunchStarted,
    StreamsBegun,
    TableMade,
    WorkloadBegun,
    WorkloadEvent,
    WorkloadRepeatBegun,
    WorkloadSample,
)
from gridwright.units import format_bytes, format_rate

_LIVE_S = 3.0
"""A node that sampled longer ago runs no launch now."""


def workload_display() -> WorkloadTerminal | WorkloadLines:
    """Choose the display that suits stderr."""
    return WorkloadTerminal() if sys.stderr.isatty() and not is_quiet() else WorkloadLines()


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

    def take(self, event: WorkloadEvent) -> None:
        """Account for one event."""
        match event:
            case WorkloadBegun():
                self.launches, self.streams = event.launches, event.streams
            case LaunchStarted():
                self.running += 1
            case LaunchEnded():
                launch = event.launch
                self.running = max(0, self.running - 1)
                self.ended += 1
                self.failed += not launch.ok
                self.cpu_s += (launch.user_s or 0.0) + (launch.system_s or 0.0)
                self.real_s += launch.real_s or 0.0
            case LaunchLost():
                self.running -= event.begun
            case WorkloadSample():
                self._sample(event)

    def _sample(self, event: WorkloadSample) -> None:
        """The rate over all nodes: of each its last second, whose libraries come one event after another."""
        node, now = event.node, event.time
        at, moved, _ = self._seconds.get(node, (0.0, 0.0, 0.0))
        moved = moved if at == now else 0.0
        moved += event.moved_bytes
        seconds = event.interval_s
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

    def take(self, event: WorkloadEvent) -> None:
        """Print what is worth a line."""
        self._tally.take(event)
        if isinstance(event, DataProgress) and event.state == "waiting" and not self._waited:
            self._waited = True
            say("data: another run is making it; waiting")
        elif isinstance(event, Problem):
            typer.echo(event_message(event), err=True)
        elif line := describe(event):
            say(line)
        if isinstance(event, WorkloadSample) and time.monotonic() - self._told > 10:
            self._told = time.monotonic()
            say(str(self._tally))

    def close(self) -> None:
        """Nothing is left to be tidied."""


class WorkloadTerminal:
    """A bar of launches with what goes on now; failures and findings above it."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        from gridwright.report.terminal.frame import TerminalConsole

        self._console = TerminalConsole(stderr=True)
        self._progress = Progress(
            BarColumn(bar_width=bar_width(self._console)),
            # Takes what the others leave, so that the clock is never cut.
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            console=self._console,
            expand=True,
            refresh_per_second=4,
        )
        self._tally = Tally()
        self._progress.start()
        self._task = self._progress.add_task("starting", total=None)

    def take(self, event: WorkloadEvent) -> None:
        """Move the bar, or print a message above it."""
        self._tally.take(event)
        match event:
            case DataProgress():
                waiting = event.state == "waiting"
                text = "another run is making the data" if waiting else "making data"
                self._progress.update(self._task, description=text, completed=event.done or 0, total=event.of)
            case StreamsBegun() | LaunchStarted() | LaunchEnded() | WorkloadSample():
                self._progress.update(
                    self._task,
                    description=str(self._tally).replace(" launches done", " done"),
                    completed=self._tally.ended,
                    total=self._tally.launches,
                )
        if isinstance(event, Finding | Problem | WorkloadRepeatBegun) or (
            isinstance(event, LaunchEnded) and not event.launch.ok
        ):
            self._progress.console.print(describe(event), markup=False, style="yellow")

    def close(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        self._progress.stop()


def describe(event: WorkloadEvent) -> str:
    """A step in one line; empty if it is not worth one."""
    match event:
        case WorkloadBegun():
            nodes = f" on {len(event.nodes)} nodes" if event.nodes is not None else ""
            return (
                f"workload: matrix {event.matrix}, scale {event.scale}, "
                f"{event.launches} launches in {event.streams} streams{nodes}"
            )
        case WorkloadRepeatBegun():
            return f"repeat {event.number} of {event.of}"
        case TableMade() | DataReady():
            return _data(event)
        case LaunchEnded():
            return _launch(event.launch)
        case Finding() | Problem():
            return event_message(event)
    return ""


def _data(event: TableMade | DataReady) -> str:
    size = format_bytes(event.bytes, binary=False)
    if isinstance(event, TableMade):
        return f"data: {event.table} of copy {event.copy}, {size}"
    made = f"{event.made} of {event.tables} tables made" if event.made else "there already"
    return f"data: {size} in {event.directory}, {made} in {event.seconds:.0f} s"


def _launch(launch: LaunchRecord) -> str:
    name = f"stream {launch.stream}: {launch.test}"
    name += f" on {launch.node}" if launch.job else ""
    if not launch.ok:
        return f"{name}: failed: {launch.reason}"
    text = f"{name}: {launch.real_s or 0.0:.2f} s"
    ratio = launch.cpu_real_ratio
    return f"{text}, CPU/real {ratio:.2f}, bound by {launch.bound_by}" if ratio is not None else text
