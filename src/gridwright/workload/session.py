"""A run of the workload: where it runs, its agent started, its events passed on, and its logs written.

The log of one launch has the shape of a SAS log with FULLSTIMER.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gridwright import __version__
from gridwright.atomic import write_atomically
from gridwright.errors import ExitStatus, Problem, environment_error, input_error
from gridwright.grid.grid import Grid
from gridwright.grid.node_python import Packages
from gridwright.machine import physical_cores
from gridwright.messages import MessageError, plain
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.journal import Event, is_silenced
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.worker_process import Observer, WorkerProcess
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    LaunchEnded,
    WorkloadBegun,
    WorkloadDone,
    WorkloadEvent,
    WorkloadRepeatBegun,
)
from gridwright.runs.workload_judge import WorkloadNeeds
from gridwright.workload.matrix import Matrix
from gridwright.workload.messages import GridRequest, GridSource, RunRequest
from gridwright.workload.options import WorkloadOptions, copies_of, plan_request
from gridwright.workload.programs.program import ENGINES, absent_engines

_BLOCK_BYTES = 512
"""What Linux counts as a block of a process (getrusage(2), ru_inblock)."""


def write_step_log(directory: Path, launch: LaunchRecord, output: str) -> Path:
    """Write `NNNN-<test>.log` into a directory; returns its path. Raises OSError."""
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", launch.test)[:60]
    path = directory / f"{launch.number:04d}-{label}.log"
    write_atomically(path, step_log(launch, output))
    return path


def step_log(launch: LaunchRecord, output: str) -> str:
    """The text of the log; `gridwright workload import` reads it back."""
    lines = [
        f"NOTE: Gridwright {__version__}, launch {launch.number} of test {_line(launch.test)} "
        f"({launch.class_}), stream {launch.stream}, node {launch.node}.",
        f"NOTE: {launch.cores} cores, memory limit {_kilobytes(launch.memory_limit_bytes)}, "
        f"copy {launch.copy} of the data.",
        "",
        # A line of the program must not pass for one of ours when the log is read back.
        *(f"+ {line}" for line in output.splitlines()),
        "",
    ]
    if not launch.ok:
        lines += [f"ERROR: {_line(launch.reason or '')}", ""]
    for library, moved in launch.libraries.items():
        lines.append(
            f"NOTE: {library}: {moved.read_bytes} bytes read, {moved.written_bytes} bytes written, "
            f"waited {moved.read_wait_s:.2f} s to read and {moved.write_wait_s:.2f} s to write."
        )
    if launch.unwaited_counted:
        lines.append(
            f"NOTE: {launch.unwaited_cpu_s:.2f} s of the CPU time are of processes that nobody waited for "
            f"({launch.unwaited_counted})."
        )
    if launch.bound_by:
        share = f" ({launch.bound_share * 100:.0f} % of the real time)" if launch.bound_share else ""
        lines.append(f"NOTE: Bound by {launch.bound_by}{share}.")
    title = f"NOTE: PROCEDURE {_line(launch.test).upper()} used (Total process time):"
    lines += ["", title, *_figures(launch), ""]
    lines += ["NOTE: The SAS System used:", *_figures(launch), ""]
    return "\n".join(lines)


def _line(text: str) -> str:
    """A name or a message of the user's own, which may hold line breaks, on one line."""
    return " ".join(text.split())


def _figures(launch: LaunchRecord) -> list[str]:
    rows = [
        ("real time", _clock(launch.real_s)),
        ("user cpu time", _clock(launch.user_s)),
        ("system cpu time", _clock(launch.system_s)),
        ("memory", _kilobytes(launch.peak_memory_bytes)),
    ]
    if launch.ended is not None:
        stamp = datetime.fromtimestamp(launch.ended)  # noqa: DTZ006 - a SAS log has local time
        rows.append(("Timestamp", f"{stamp:%m/%d/%Y %I:%M:%S %p}"))
    for name, moved in (("Input", launch.device_read_bytes), ("Output", launch.device_written_bytes)):
        if moved is not None:
            rows.append((f"Block {name} Operations", f"         {moved // _BLOCK_BYTES}"))
    return [f"      {name:<20}{text}" for name, text in rows]


def _clock(seconds: float | None) -> str:
    """A time as SAS prints it: `12.34 seconds`, `2:05.10`, `1:02:05.10`."""
    if seconds is None:
        return "."
    hundredths = round(seconds * 100)
    whole, part = divmod(hundredths, 100)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}.{part:02d}"
    return f"{minutes}:{rest:02d}.{part:02d}" if minutes else f"{rest}.{part:02d} seconds"


def _kilobytes(size: int | None) -> str:
    return "." if size is None else f"{size / 1024:.2f}k"


_AGENT = "gridwright.workload.agent"
_GRID_AGENT = "gridwright.workload.on_grid.process"


@dataclass(frozen=True, slots=True)
class OnGrid:
    """What makes a run of the workload one on the nodes of a grid."""

    state: str
    """The grid's state directory."""
    facts: object
    """What its agent needs to know to open the grid's scheduler."""
    nodes: Sequence[str]
    """Names of the nodes that are up."""
    cores: int
    """Of the smallest of them."""
    most_cores: int | None = None
    """Of the largest of them, where they are not alike."""
    agent: str = _GRID_AGENT
    """The module of its agent, a `GridAgent` with the scheduler of the grid."""
    elsewhere: Sequence[str] = ()
    """The command line that runs it on the head node, where the state directory is out of sight here."""

    def request(self, libraries: Mapping[str, Path], run: RunRequest | None = None) -> GridRequest:
        """What its agent is asked: a run, or to remove all data sets."""
        paths = {name: str(path) for name, path in libraries.items()}
        return GridRequest(self.state, plain(self.facts), paths, run, heartbeats=bool(self.elsewhere))

    def worker(self, request: GridRequest, log: Path) -> WorkerProcess:
        """The process that does what is asked."""
        return WorkerProcess(self.agent, request, log, self.elsewhere)


def run_workload(
    run: RunDirectory,
    options: WorkloadOptions,
    libraries: Mapping[str, Path],
    *,
    observers: Sequence[Observer[WorkloadEvent]],
    stop: threading.Event,
    silenced: Collection[str] = (),
    grid: OnGrid | None = None,
    needs: WorkloadNeeds | None = None,
) -> ExitStatus:
    """Run the workload and journal every event; returns how that ended, without a judgement.

    One that is to be repeated ends with the first repeat that does not end well. Without `grid` all of it
    runs on this node. `needs` is what is required of it. `stop` may be set at any time from a signal handler.
    Raises GridwrightError if the run directory cannot be written to, or the agent cannot be started.
    """
    told = [run, *observers]
    _tell(told, _header(options, grid, needs or WorkloadNeeds()))
    ended = ExitStatus.DONE
    for number in range(1, options.repeat + 1):
        if options.repeat > 1:
            _tell(told, WorkloadRepeatBegun(number=number, of=options.repeat))
        cores = grid.cores if grid else None
        request = plan_request(options, libraries, node=socket.gethostname(), cores=cores, repeat=number)
        ended = _run_once(run, replace(request, run=run.path.name), libraries, told, stop, silenced, grid)
        if ended != ExitStatus.DONE:
            break
    return ended


def _run_once(
    run: RunDirectory,
    request: RunRequest,
    libraries: Mapping[str, Path],
    observers: Sequence[Observer[WorkloadEvent]],
    stop: threading.Event,
    silenced: Collection[str],
    grid: OnGrid | None,
) -> ExitStatus:
    logs = run.path / LOGS
    log = logs / "workload.log"
    if grid is not None:
        worker = grid.worker(grid.request(libraries, request), log)
    else:
        worker = WorkerProcess(_AGENT, request, log)
    done: WorkloadDone | None = None
    with worker as agent:
        for event in _agreed(agent.events(stop)):
            if is_silenced(event, silenced):
                continue
            if isinstance(event, LaunchEnded):
                event = _with_log(event, logs)  # noqa: PLW2901 - the same event, completed
            if isinstance(event, WorkloadDone):
                done = event
            _tell(observers, event)
    if done is None:
        _tell(observers, _lost(agent, libraries, grid))
        return ExitStatus.INTERRUPTED if stop.is_set() and not agent.hangs else ExitStatus.ENVIRONMENT
    return done.exit


def _header(options: WorkloadOptions, grid: OnGrid | None, needs: WorkloadNeeds) -> WorkloadBegun:
    return WorkloadBegun(
        matrix=options.matrix.name,
        scale=options.scale.name,
        seed=options.seed,
        streams=len(options.matrix.streams),
        launches=options.matrix.launches * options.repeat,
        block_bytes=options.block,
        copies=copies_of(options.matrix),
        nodes=list(grid.nodes) if grid is not None else None,
        requires=replace(needs, cores=grid.cores * len(grid.nodes) if grid else physical_cores()),
        allow_disturbed=options.allow_disturbed or None,
        repeat=options.repeat if options.repeat > 1 else None,
    )


def _agreed(events: Iterable[Event]) -> Iterator[WorkloadEvent]:
    """The events that are known. Raises GridwrightError: samples come from nodes as they are."""
    try:
        for event in map(WORKLOAD_EVENTS.read, events):
            if event is not None:
                yield event
    except MessageError as error:
        raise environment_error(
            f"an event of the workload is not as agreed: {error}",
            remedy="install the same gridwright on all nodes",
        ) from error


def _with_log(event: LaunchEnded, logs: Path) -> LaunchEnded:
    """Write the launch's log and name it in its record; a log that cannot be written loses nothing else."""
    log = None
    with contextlib.suppress(OSError):
        log = f"{LOGS}/{write_step_log(logs, event.launch, event.output or '').name}"
    return replace(event, launch=replace(event.launch, log=log), output=None)


def _lost(agent: WorkerProcess, libraries: Mapping[str, Path], grid: OnGrid | None) -> Problem:
    if grid is not None:
        what = f"the process that submits the jobs of the workload was lost: {agent.end}"
        remedy = f"check the grid's state directory and {agent.log}; its jobs end within two minutes"
        return Problem(what=what, where=grid.state, remedy=remedy)
    return Problem(
        what=f"the workload on this node was lost: {agent.end}",
        where=", ".join(str(path) for path in dict.fromkeys(libraries.values())),
        remedy=f"check the mounts (`mount`, `dmesg`) and {agent.log}",
    )


def _tell(observers: Sequence[Observer[WorkloadEvent]], event: WorkloadEvent) -> None:
    for observer in observers:
        observer.take(event)


_AGENT_NEEDS = {"ClusterShell": "ClusterShell", "pydantic": "pydantic", "ruamel.yaml": "ruamel.yaml"}
"""What the agent of a grid imports beside what is brought to nodes; name of the package by its module."""
_WITHOUT = "or leave the workload out: gridwright prove --skip workload"


def on_grid(grid: Grid, matrix: Matrix | None) -> OnGrid | None:
    """How the workload runs on the nodes of a grid; None where it runs on this machine.

    `matrix` has its launches, None where data sets are only removed. Raises GridwrightError: status INPUT for
    a grid without a queue, and where the engines of tests are not installed; ENVIRONMENT where no node is up.
    """
    spec = grid.spec
    has_tests = matrix is not None and matrix.has_tests
    if spec.scheduler.runs_on_one_machine:
        _check_engines(has_tests=has_tests)
        return None
    if not grid.has_queue:
        raise input_error(
            f"grid {spec.name} has no queue, and the workload runs each launch as a job",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: slurm}; or run the workload on one node, with scheduler: "
            "{type: local}. gridwright iotest needs no queue.",
        )
    up = grid.up()
    here = grid.head.sees_state
    if here:
        _check_engines(has_tests=has_tests)
    file = spec.file if here or spec.file is None else spec.file.absolute()
    nodes = [node.name for node in up]
    return OnGrid(
        state=str(grid.state),
        facts=GridSource(spec.source_text, str(file) if file else None, on_head=not here),
        nodes=nodes,
        cores=min(max(1, node.cores) for node in up),
        most_cores=max(max(1, node.cores) for node in up),
        elsewhere=() if here else _agent_on_head(grid, nodes, has_tests=has_tests),
    )


def _check_engines(*, has_tests: bool) -> None:
    if has_tests and (lacking := absent_engines()):
        raise input_error(
            f"the engines of the tests are not installed: {', '.join(lacking)}",
            where="this Python",
            remedy="run: pip install 'gridwright[workload]'",
        )


def _agent_on_head(grid: Grid, nodes: Sequence[str], *, has_tests: bool) -> list[str]:
    """The command line that runs the agent on the head node; jobs run with its Python, too."""
    engines = {module: package for package, module in ENGINES.items()} if has_tests else {}
    needed = Packages(
        "packages that the workload needs",
        _AGENT_NEEDS | engines,
        f"gridwright[workload]=={__version__}",
        _WITHOUT,
    )
    return grid.head.argv([grid.shared_python(needed, nodes), "-P", "-m", _GRID_AGENT])
