"""The streams of a run on several nodes: each launch is a job; when it has ended, the next is submitted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gridwright.errors import Finding
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import (
    LaunchEnded,
    LaunchLost,
    LaunchStarted,
    StreamsBegun,
    WorkloadEvent,
)
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.workload.exchange import REQUEST, ExchangeDirectory
from gridwright.workload.launches.account import launch_record
from gridwright.workload.launches.guard import LaunchOutcome
from gridwright.workload.messages import LaunchRequest, LaunchResult, PlannedLaunch, RunRequest
from gridwright.workload.on_grid.clocks import NodeClocks
from gridwright.workload.on_grid.job import GridJob
from gridwright.workload.on_grid.jobs import GridJobs
from gridwright.workload.scales import scale

HARNESS_BYTES = 128 << 20
"""Memory of a job beyond that of its launch: the Python that watches it takes about a fifth of this, the
rest is what a launch may pass its limit by until that is seen, a tenth of a second later."""
LATE_S = 120.0
"""A job may last so much longer than its launch: it starts, makes directories, tidies up."""
_HANGS_S = 180.0
_TAIL_BYTES = 16 * 1024
Say = Callable[[WorkloadEvent], None]


def job_request(module: str, request_file: str, **fields: Any) -> JobRequest:  # noqa: ANN401 - as JobRequest
    """A job that runs a module of `node_jobs` on a node, with the environment of this process."""
    return JobRequest(
        command=[sys.executable, "-P", "-m", f"gridwright.workload.node_jobs.{module}", request_file],
        directory="/",
        environment=dict(os.environ),
        **fields,
    )


class GridRunning:
    """Runs all streams; the jobs themselves are watched by `GridJobs`."""

    def __init__(self, request: RunRequest, exchange: ExchangeDirectory, jobs: GridJobs, say: Say) -> None:
        self._request = request
        self._exchange = exchange
        self._jobs = jobs
        self._say = say
        self._pending = [list(stream) for stream in request.streams]
        self._scale = scale(request.scale)
        self._losses: dict[str, list[str]] = {}
        self._clocks = NodeClocks()
        self._kept = False
        self.strays = False
        """Whether a launch was lost that could not remove its directories."""

    @property
    def ended(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self._jobs.ended and not any(self._pending)

    def begin(self) -> None:
        """Have the first launch of each stream handed in. Raises OSError."""
        self._say(StreamsBegun(time=time.time(), streams=len(self._pending)))
        for stream in range(len(self._pending)):
            self._hand_in_next(stream)

    def tell_losses(self) -> None:
        """Report the nodes that were lost since the last time, each with its launches."""
        losses, self._losses = self._losses, {}
        for node, launches in losses.items():
            one = len(launches) == 1
            what = f"launch {launches[0]} was" if one else f"launches {', '.join(launches)} were"
            text = f"node {node} was lost, or what ran jobs there, while {what} on it: "
            text += f"{'it was' if one else 'they were'} started again"
            remedy = f"see why {node} failed; times of a launch are those of its last start"
            self._say(Finding("warning", "workload-requeued", text, remedy))

    def close(self) -> None:
        """Report what is known at the end."""
        self.tell_losses()
        for finding in self._clocks.findings():
            self._say(finding)
        if self._kept:
            libraries = self._request.libraries
            text = f"the launches' directories were kept: .gridwright-workload-{self._exchange.run_id}-* in "
            text += f"{libraries['work']} and {libraries['util']} on the nodes"
            remedy = "remove them when you have seen them"
            self._say(Finding("info", "workload-kept", text, remedy))

    def _hand_in_next(self, stream: int) -> None:
        if not self._pending[stream] or self._jobs.stopping:
            return
        launch = self._pending[stream].pop(0)
        name = f"{launch.number:04d}"
        document = LaunchRequest(
            launch=launch,
            libraries=self._request.libraries,
            scale=self._scale,
            seed=self._request.seed,
            keep=self._request.keep,
            run=self._request.run,
        )
        self._exchange.write(name, REQUEST, document)
        self._jobs.add(
            GridJob(
                name,
                job_request(
                    "launch",
                    str(self._exchange.file(name, REQUEST)),
                    cores=launch.cores,
                    memory_bytes=launch.memory_bytes + HARNESS_BYTES,
                    time_limit_s=launch.time_limit_s + LATE_S,
                    restart=True,
                ),
                leaves=LaunchResult,
                quiet_s=launch.time_limit_s + LATE_S + _HANGS_S,
                begun=lambda job: self._begin(launch, job),
                ended=lambda job: self._finish(launch, job),
                lost=lambda job, node, begun: self._lose(launch, node, begun=begun),
            )
        )

    def _begin(self, launch: PlannedLaunch, job: GridJob[LaunchResult]) -> None:
        self._say(
            LaunchStarted(
                time=time.time(),
                node=job.node,
                number=launch.number,
                label=launch.label,
                stream=launch.stream,
            )
        )

    def _lose(self, launch: PlannedLaunch, node: str, *, begun: bool) -> None:
        self.strays = self.strays or begun
        self._losses.setdefault(node, []).append(f"{launch.number} ({launch.label})")
        self._say(LaunchLost(time=time.time(), node=node, number=launch.number, begun=begun))

    def _finish(self, launch: PlannedLaunch, job: GridJob[LaunchResult]) -> None:
        if job.result is not None:
            record, output = job.result.launch, job.result.output
            self._kept = self._kept or self._request.keep
            if job.result.left:
                text = f"directories of a launch could not be removed on {record.node}: "
                text += ", ".join(job.result.left)
                self._say(Finding("warning", "workload-left", text, "remove them by hand"))
        else:
            self.strays = self.strays or job.starts != []
            record, output = _lost_record(launch, job), _log_tail(job.job)
        record = replace(
            record, submitted=job.submitted, job=job.id, restarts=_restarts(job), lost_on=job.lost_on
        )
        if job.result is not None:
            self._clocks.see(record)
        if self._jobs.stopping and job.starts == []:
            # It was never started: a run of one node does not record such either.
            return
        self._say(LaunchEnded(launch=record, output=output))
        self._hand_in_next(launch.stream - 1)


def _restarts(job: GridJob[LaunchResult]) -> int:
    return max(job.restarts, job.job.restarts if job.job else 0, len(job.starts) - 1)


def _lost_record(launch: PlannedLaunch, job: GridJob[LaunchResult]) -> LaunchRecord:
    """The record of a launch of which nothing was accounted: figures that nobody measured are null."""
    outcome = LaunchOutcome(launch.number, ended_by="lost")
    record = launch_record(launch, outcome, {}, node=job.node or "unknown", oom_kills=0)
    unknown = ("real_s", "user_s", "system_s", "peak_memory_bytes", "read_bytes", "written_bytes")
    told: dict[str, Any] = dict.fromkeys(
        (*unknown, "device_read_bytes", "device_written_bytes", "core_wait_s")
    )
    state = job.job
    if job.starts:
        told["started"] = job.starts[-1].time
        told["ended"] = state.ended if state else None
    if state is not None and state.state == JobState.OUT_OF_MEMORY:
        told["bound_by"] = "memory"
    if state is not None and state.exit_status:
        told["exit_status"] = state.exit_status
    reason = job.reason
    if job.node_lost and job.restarts:
        times = len(job.lost_on)
        reason += f"; it was started {times} times, on {', '.join(job.lost_on)}"
    return replace(record, **told, ok=False, reason=reason or "interrupted")


def _log_tail(job: Job | None) -> str:
    """What a job printed that left no result, where its log can be read from here."""
    try:
        with open(job.log if job and job.log else "", "rb") as file:  # noqa: PTH123 - bytes of a path
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
