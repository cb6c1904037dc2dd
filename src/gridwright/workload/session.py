"""A run of the workload: starts its agent, here or for a grid, passes events on, and writes the logs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import ExitStatus, Problem
from gridwright.messages import plain
from gridwright.runs.directory import LOGS, RunDirectory
from gridwright.runs.events import TOLD, is_silenced, problem_event
from gridwright.runs.journal import Event
from gridwright.runs.worker_process import Observer, WorkerProcess
from gridwright.runs.workload_record import LaunchRecord, WorkloadRecord
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
    observers: Sequence[Observer[Event]],
    stop: threading.Event,
    silenced: Collection[str] = (),
    grid: OnGrid | None = None,
) -> ExitStatus:
    """Run the workload and journal every event; returns how that ended, without a judgement.

    Without `grid` all of it runs on this node. `stop` may be set at any time from a signal handler.
    Raises GridwrightError if the run directory cannot be written to, or the agent cannot be started.
    """
    asked = plan_request(options, libraries, node=socket.gethostname(), cores=grid.cores if grid else None)
    header = _header(options, asked.copies)
    request: RunRequest | GridRequest = asked
    if grid is not None:
        request = grid.request(libraries, asked)
        header["nodes"] = list(grid.nodes)
    told = [run, *observers]
    _tell(told, header)
    logs = run.path / LOGS
    done: Event = {}
    with WorkerProcess(grid.agent if grid else _AGENT, request, logs / "workload.log") as agent:
        for event in agent.events(stop):
            if is_silenced(TOLD.read(event), silenced):
                continue
            if event["event"] == "launch":
                event = _with_log(event, logs)  # noqa: PLW2901 - the same event, completed
            if event["event"] == "done":
                done = event
            _tell(told, event)
    if not done:
        _tell(told, _lost(agent, libraries, grid))
        return ExitStatus.INTERRUPTED if stop.is_set() and not agent.hangs else ExitStatus.ENVIRONMENT
    return ExitStatus(done["exit"])


def judged(ended: ExitStatus, result: WorkloadRecord) -> ExitStatus:
    """The exit status of a workload: missed where a launch failed."""
    if ended != ExitStatus.DONE:
        return ended
    return ExitStatus.DONE if result.met else ExitStatus.MISSED


def _header(options: WorkloadOptions, copies: int) -> Event:
    return {
        "event": "workload",
        "matrix": options.matrix.name,
        "scale": options.scale.name,
        "seed": options.seed,
        "streams": len(options.matrix.streams),
        "launches": options.matrix.launches,
        "copies": copies,
    }


def _with_log(event: Event, logs: Path) -> Event:
    """Write the launch's log and name it in its record; a log that cannot be written loses nothing else."""
    launch = LaunchRecord.model_validate(event["launch"])
    with contextlib.suppress(OSError):
        path = write_step_log(logs, launch, event["output"])
        return {"event": "launch", "launch": event["launch"] | {"log": f"{LOGS}/{path.name}"}}
    return {"event": "launch", "launch": event["launch"]}


def _lost(agent: WorkerProcess, libraries: Mapping[str, Path], grid: OnGrid | None) -> Event:
    if grid is not None:
        what = f"the process that hands in the jobs of the workload was lost: {agent.end}"
        remedy = f"check the grid's state directory and {agent.log}; its jobs end within two minutes"
        return problem_event(Problem(what=what, where=grid.state, remedy=remedy))
    return problem_event(
        Problem(
            what=f"the workload on this node was lost: {agent.end}",
            where=", ".join(str(path) for path in dict.fromkeys(libraries.values())),
            remedy=f"check the mounts (`mount`, `dmesg`) and {agent.log}",
        )
    )


def _tell(observers: Sequence[Observer[Event]], event: Event) -> None:
    for observer in observers:
        observer.take(event)
