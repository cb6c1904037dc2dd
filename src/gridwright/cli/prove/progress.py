"""Shows the progress of tests and workload on stderr: live lines on a terminal, one per step elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from gridwright.cli.verbosity import is_quiet, say
from gridwright.errors import Finding, Problem
from gridwright.runs.iotest_events import (
    IotestEvent,
    LibraryBegun,
    NodesAwaited,
    PhaseBegun,
    PhaseDone,
    PhaseProgress,
    RepeatBegun,
    SampleTaken,
)
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
from gridwright.units import counted, format_bytes, format_rate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from gridwright.runs.phase_record import PhaseRecord


FORETOLD_S = 3.0
"""A closing fsync that will take so long is told before."""
FORETOLD_AT = 0.8
"""Part of the phase's time after which that is told."""
TOLD_EVERY_S = 4.0


def iotest_display() -> TerminalDisplay | LineDisplay:
    """Choose the display that suits stderr."""
    return TerminalDisplay() if sys.stderr.isatty() and not is_quiet() else LineDisplay()


def _bar_width(console: Console) -> int:
    """Columns of a bar, where the words beside it need most of what there is."""
    return 28 if console.width >= 110 else 8


def _describe(phase: PhaseRecord) -> str:
    if phase.op == "metadata":
        return f"{phase.ops_per_s:.0f} operations/s" if phase.ops_per_s else "no figure"
    rate, core = phase.rate_last_bytes_per_s, phase.per_core_bytes_per_s
    if rate is None or core is None:
        return f"{phase.status}, no figure"
    text = f"{format_rate(rate)}, {format_rate(core, per_core=True)}"
    return f"{text}, cached: does not count" if phase.cached else text


def flush_note(event: PhaseProgress) -> str:
    """What is to be said of a closing fsync that is under way, or will take its time; nothing of others."""
    seconds = None if event.flush_s is None else f"about {max(1, round(event.flush_s))} s"
    if event.syncing:
        left = f"{format_bytes(event.unflushed_bytes)} left" if event.unflushed_bytes else None
        return ", ".join(filter(None, ("flushing to disk", left, seconds)))
    if event.flush_s is not None and event.flush_s >= FORETOLD_S:
        return f"then {seconds} of fsync"
    return ""


def layout_note(event: LibraryBegun) -> str:
    """Which of two layouts files get."""
    asked = event.layout
    if asked is None:
        return ""
    return f"files in layout {asked.text}" if asked.chosen else "files in the library's own layout"


class LineDisplay:
    """One line per step, for logs and pipes."""

    def __init__(self) -> None:
        self._library = ""
        self._limit_s: float | None = None
        self._flush_told: float | None = None
        self._flush_began = 0.0
        self._foretold = False

    def take(self, event: IotestEvent) -> None:
        """Print what is worth a line."""
        match event:
            case NodesAwaited():
                say(event.text)
            case RepeatBegun():
                say(f"repeat {event.number} of {event.of}")
            case LibraryBegun():
                self._library = event.library
                nodes = f" on each of {event.nodes} nodes" if event.nodes > 1 else ""
                files = f", {layout_note(event)}" if event.layout else ""
                say(f"{self._library}: testing {event.path} with {event.streams} streams{nodes}{files}")
            case PhaseBegun():
                self._limit_s, self._flush_told, self._foretold = event.limit_s, None, False
                say(f"{self._library}: {event.op} ({event.used.streams} streams)")
            case PhaseProgress():
                self._tell_of_flush(event)
            case PhaseDone():
                say(f"{self._library}: {event.phase.op}: {_describe(event.phase)}")
            case Finding():
                say(_event_message(event))
            case Problem():
                typer.echo(_event_message(event), err=True)

    def _tell_of_flush(self, event: PhaseProgress) -> None:
        """Say once before it how long the closing fsync will take, and now and then what is left."""
        note = flush_note(event)
        if not event.syncing:
            self._flush_told = None
            # Near its end it is known best, and there is time to say it before.
            if note and not self._foretold and event.elapsed_s >= FORETOLD_AT * (self._limit_s or 0.0):
                self._foretold = True
                say(f"{self._library}: {event.op}: soon at its end, {note}")
        elif self._flush_told is None:
            # One that is over in a moment is not worth a line.
            self._flush_began = self._flush_told = event.elapsed_s
        elif event.elapsed_s - self._flush_told >= TOLD_EVERY_S:
            self._flush_told = event.elapsed_s
            so_far = event.elapsed_s - self._flush_began
            say(f"{self._library}: {event.op}: {note}; {so_far:.0f} s so far")

    def close(self) -> None:
        """Nothing is left to be tidied."""


class TerminalDisplay:
    """A bar per phase with the rate of the last second."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        from gridwright.report.terminal.frame import TerminalConsole

        self._console = TerminalConsole(stderr=True)
        self._progress: Progress = Progress(
            TextColumn("{task.fields[library]:<6} {task.description:<9}", markup=False),
            BarColumn(bar_width=_bar_width(self._console)),
            # Takes what the others leave, so that the clock is never cut.
            TextColumn("{task.fields[note]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            console=self._console,
            expand=True,
            auto_refresh=False,
        )
        self._progress.start()
        self._task: TaskID | None = None
        self._library = ""
        self._rate = ""
        self._phase: PhaseBegun | None = None

    def take(self, event: IotestEvent) -> None:
        """Move the bar, or print a message above it."""
        match event:
            case NodesAwaited():
                self._console.print(event.text, style="dim", markup=False)
            case RepeatBegun():
                self._console.print(f"repeat {event.number} of {event.of}")
            case LibraryBegun():
                self._library = event.library
                if event.layout:
                    self._console.print(f"{event.library}: {layout_note(event)}", markup=False)
            case PhaseBegun():
                self._begin(event)
            case SampleTaken():
                self._sample(event)
            case PhaseProgress():
                self._move(event)
            case PhaseDone() if self._task is not None:
                note = _describe(event.phase)
                self._progress.update(self._task, completed=1.0, total=1.0, note=note)
                self._progress.stop_task(self._task)
            case Finding() | Problem():
                style = _STYLES[event.level if isinstance(event, Finding) else "error"]
                self._console.print(_event_message(event), style=style, markup=False)
        self._progress.refresh()

    def close(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._progress.stop()

    def _begin(self, event: PhaseBegun) -> None:
        self._phase, self._rate = event, ""
        self._task = self._progress.add_task(event.op, total=1.0, library=self._library, note="preparing")

    def _sample(self, event: SampleTaken) -> None:
        # Of several nodes, each gives its own; their progress has the rate of all.
        if event.interval_s > 0 and not event.node:
            moved = event.moved_bytes
            self._rate = format_rate(moved / event.interval_s) if moved else ""

    def _move(self, event: PhaseProgress) -> None:
        if self._task is None or self._phase is None:
            return
        if event.rate_bytes_per_s:
            self._rate = format_rate(event.rate_bytes_per_s)
        flush = flush_note(event)
        note = flush if event.syncing else ", ".join(filter(None, (self._rate, flush)))
        if event.operations:
            note = f"{event.operations} operations"
        self._progress.update(
            self._task,
            completed=_done(self._phase, event),
            note=f"{note}  {format_bytes(event.moved_bytes, binary=False)}",
        )


def _done(phase: PhaseBegun, event: PhaseProgress) -> float:
    """Part of the phase that is done: by bytes or by time, whichever is nearer its end."""
    parts = [0.0]
    if phase.limit_bytes:
        parts.append(event.moved_bytes / (phase.limit_bytes * phase.used.streams))
    if phase.limit_s:
        parts.append(event.elapsed_s / phase.limit_s)
    return min(0.99, max(parts))


_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def _event_message(event: Finding | Problem) -> str:
    """What a reader is to know at once, with what to do about it."""
    if isinstance(event, Problem):
        where = f"{event.where}: " if event.where else ""
        return f"error: {where}{event.what}\n  {event.remedy}"
    return str(event)


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
            typer.echo(_event_message(event), err=True)
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
            BarColumn(bar_width=_bar_width(self._console)),
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
                f"{counted(event.launches, 'launch')} in {counted(event.streams, 'stream')}{nodes}"
            )
        case WorkloadRepeatBegun():
            return f"repeat {event.number} of {event.of}"
        case TableMade() | DataReady():
            return _data(event)
        case LaunchEnded():
            return _launch(event.launch)
        case Finding() | Problem():
            return _event_message(event)
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
