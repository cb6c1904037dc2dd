"""A run of the workload: starts its agent, here or for a grid, passes events on, and writes the logs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gridwright.errors import ExitStatus, Problem, environment_error
from gridwright.messages import MessageError, plain
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.events import is_silenced
from gridwright.runs.journal import Event
from gridwright.runs.worker_process import Observer, WorkerProcess
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    LaunchEnded,
    WorkloadBegun,
    WorkloadDone,
    WorkloadEvent,
)
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.workload.messages import GridRequest, RunRequest
from gridwright.workload.options import WorkloadOptions, plan_request
from gridwright.workload.step_log import write_step_log

_AGENT = "gridwright.workload.agent"
_GRID_AGENT = "gridwright.workload.grid_process"


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
    agent: str = _GRID_AGENT
    """The module of its agent, a `GridAgent` with the scheduler of the grid."""

    def request(self, libraries: Mapping[str, Path], run: RunRequest | None = None) -> GridRequest:
        """What its agent is asked: a run, or to remove all data sets."""
        return GridRequest(
            self.state, plain(self.facts), {n: str(path) for n, path in libraries.items()}, run
        )


def run_workload(
    run: RunDirectory,
    options: WorkloadOptions,
    libraries: Mapping[str, Path],
    *,
    observers: Sequence[Observer[WorkloadEvent]],
    stop: threading.Event,
    silenced: Collection[str] = (),
    grid: OnGrid | None = None,
) -> ExitStatus:
    """Run the workload and journal every event; returns how that ended, without a judgement.

    Without `grid` all of it runs on this node. `stop` may be set at any time from a signal handler.
    Raises GridwrightError if the run directory cannot be written to, or the agent cannot be started.
    """
    asked = plan_request(options, libraries, node=socket.gethostname(), cores=grid.cores if grid else None)
    request: RunRequest | GridRequest = asked
    if grid is not None:
        request = grid.request(libraries, asked)
    told = [run, *observers]
    _tell(told, _header(options, asked.copies, grid))
    logs = run.path / LOGS
    done: WorkloadDone | None = None
    with WorkerProcess(grid.agent if grid else _AGENT, request, logs / "workload.log") as agent:
        for event in _agreed(agent.events(stop)):
            if is_silenced(event, silenced):
                continue
            if isinstance(event, LaunchEnded):
                event = _with_log(event, logs)  # noqa: PLW2901 - the same event, completed
            if isinstance(event, WorkloadDone):
                done = event
            _tell(told, event)
    if done is None:
        _tell(told, _lost(agent, libraries, grid))
        return ExitStatus.INTERRUPTED if stop.is_set() and not agent.hangs else ExitStatus.ENVIRONMENT
    return done.exit


def judged(ended: ExitStatus, result: WorkloadRecord) -> ExitStatus:
    """The exit status of a workload: missed where a launch failed."""
    if ended != ExitStatus.DONE:
        return ended
    return ExitStatus.DONE if result.met else ExitStatus.MISSED


def _header(options: WorkloadOptions, copies: int, grid: OnGrid | None) -> WorkloadBegun:
    return WorkloadBegun(
        matrix=options.matrix.name,
        scale=options.scale.name,
        seed=options.seed,
        streams=len(options.matrix.streams),
        launches=options.matrix.launches,
        copies=copies,
        nodes=list(grid.nodes) if grid is not None else None,
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
    log = {}
    with contextlib.suppress(OSError):
        log["log"] = f"{LOGS}/{write_step_log(logs, event.record(), event.output or '').name}"
    return replace(event, launch=event.launch | log, output=None)


def _lost(agent: WorkerProcess, libraries: Mapping[str, Path], grid: OnGrid | None) -> Problem:
    if grid is not None:
        what = f"the process that hands in the jobs of the workload was lost: {agent.end}"
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
