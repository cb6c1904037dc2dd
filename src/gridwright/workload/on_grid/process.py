"""The process that runs the workload of a grid through its scheduler: it opens the grid itself.

The workload on several nodes: has the data made, runs the streams as jobs of a scheduler, tells events.

It is to a grid what `agent` is to a single node, with the same request and the same kinds of event. It runs
in a process of its own, so that a state directory that does not answer is noticed by the command.

The streams of a run on several nodes: each launch is a job; when it has ended, the next is submitted.

Finds how far the clocks of nodes are off at least, from the times of launches.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.messages import decode, encode, typed
from gridwright.runs.iotest_events import Ended
from gridwright.runs.journal import Event
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    AgentAlive,
    ChoreDone,
    LaunchEnded,
    LaunchLost,
    LaunchStarted,
    StreamsBegun,
    WorkloadDone,
    WorkloadEvent,
)
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.workload.exchange import (
    BEAT_S,
    REQUEST,
    SAMPLES,
    SILENT_S,
    ExchangeDirectory,
    Tail,
    dead_runs,
)
from gridwright.workload.launches.guard import LaunchOutcome
from gridwright.workload.launches.launcher import launch_record
from gridwright.workload.messages import (
    Chore,
    ChoreRequest,
    GridRequest,
    GridSource,
    LaunchRequest,
    LaunchResult,
    PlannedLaunch,
    RunRequest,
    scale,
)
from gridwright.workload.on_grid.jobs import PREFIX, GridJob, GridJobs, SchedulerCalls

_NOTABLE_S = 1.0
"""Below it, a clock says nothing wrong about launches of seconds and minutes."""


@dataclass(slots=True)
class _Bounds:
    """Seconds that a node's clock may be ahead of this one."""

    least: float = -math.inf
    most: float = math.inf


@dataclass(slots=True)
class NodeClocks:
    """Bounds of the offset of each node's clock.

    A launch starts after it was submitted, and ends before its result is seen, both by the
    clock here. With o the offset of the node's clock: started - o >= submitted and ended - o <= seen.
    """

    _bounds: dict[str, _Bounds] = field(default_factory=dict)

    def see(self, launch: LaunchRecord, *, seen: float | None = None) -> None:
        """Take in a launch; times in seconds since 1970."""
        bounds = self._bounds.setdefault(launch.node, _Bounds())
        if launch.ended:
            bounds.least = max(bounds.least, launch.ended - (time.time() if seen is None else seen))
        if launch.started and launch.submitted is not None and not launch.restarts:
            bounds.most = min(bounds.most, launch.started - launch.submitted)

    def findings(self) -> list[Finding]:
        """The nodes whose clock is off by a second or more."""
        found = []
        for node, bounds in sorted(self._bounds.items()):
            ahead = bounds.least > _NOTABLE_S
            if not ahead and bounds.most >= -_NOTABLE_S:
                continue
            off = bounds.least if ahead else -bounds.most
            text = (
                f"the clock of {node} is at least {off:.1f} s {'ahead of' if ahead else 'behind'} the one "
                "here: what the report shows over time, and the launches at once, are off by that"
            )
            found.append(
                Finding("warning", "workload-clock", text, f"see why {node} has no time service (chrony)")
            )
        return found


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
        """Have the first launch of each stream submitted. Raises OSError."""
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


_TICK_S = (0.05, 0.4)
"""Between two looks at the exchange directory: soon after something happened, and when nothing does."""
_CALM_S = 20.0
_ALIVE_S = 5.0
_LAST_WORDS_S = 8.0
_TIDY_S = 60.0
_CHORE_QUIET_S = 300.0
_CHORE_TIME_S = 24 * 3600.0


class GridAgent:
    """One run of the workload on the nodes of a grid.

    Where it is asked for no run, all data sets are removed, and the answer is an event `chore`.
    """

    def __init__(
        self, request: GridRequest, open_scheduler: Callable[[], Scheduler], output: int = 1
    ) -> None:
        self._request = request
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._stop = False
        self._calls = SchedulerCalls(open_scheduler, self.say)
        self._tails: dict[str, Tail] = {}
        self._beat = self._told = 0.0
        self._heard = time.monotonic()
        self._happened = time.monotonic()
        self._exchange: ExchangeDirectory
        self._jobs: GridJobs

    def say(self, event: WorkloadEvent) -> None:
        """Write an event; a reader that is gone is an order to stop."""
        if not isinstance(event, AgentAlive):
            self._happened = time.monotonic()
        self._write(WORKLOAD_EVENTS.plain(event))

    def _write(self, event: Event) -> None:
        self._told = time.monotonic()
        line = memoryview(encode(event) + b"\n")
        try:
            while line:
                line = line[os.write(self._output, line) :]
        except BrokenPipeError:
            self._stop = True

    def serve(self, stdin: int = 0) -> None:
        """Do all of it, and say how it ended; the end of `stdin` and SIGTERM are orders to stop."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.stop())
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 512))
        self._selector.register(stdin, selectors.EVENT_READ, lambda: self._end_of_input(stdin))
        status = self.run()
        words: dict[ExitStatus, Ended] = {
            ExitStatus.INTERRUPTED: "interrupted",
            ExitStatus.DONE: "complete",
        }
        self.say(WorkloadDone(status=words.get(status, "failed"), exit=status))

    def stop(self) -> None:
        """Order it to stop."""
        self._stop = True

    def _end_of_input(self, stdin: int) -> None:
        self._heard = time.monotonic()
        if not os.read(stdin, 4096):
            self._stop = True
            self._selector.unregister(stdin)

    def run(self) -> ExitStatus:
        """Do all of it; what is wrong with the environment or the request is reported as problems."""
        try:
            return self._run()
        except GridwrightError as error:
            for problem in error.problems:
                self.say(problem)
            return error.status
        except OSError as error:
            self.say(
                Problem(
                    what=f"the workload cannot be run: {error.strerror or error}",
                    where=str(error.filename or self._request.state),
                    remedy="check that the grid's state directory is there, and who may write to it",
                )
            )
            return ExitStatus.ENVIRONMENT

    def _run(self) -> ExitStatus:
        state = Path(self._request.state)
        stale = dead_runs(state)
        self._exchange = ExchangeDirectory.create(state)
        self._jobs = GridJobs(self._exchange, self._calls, self.say)
        try:
            self._clear(stale)
            run = self._request.run
            if run is None:
                return self._do_only("clean")
            result = self._chore("prepare")
            if self._stop:
                return self._interrupted()
            if result is None or result.exit != ExitStatus.DONE:
                return result.exit if result is not None else ExitStatus.ENVIRONMENT
            return self._launch_all(run)
        except BaseException:
            self._cancel()
            raise
        finally:
            self._exchange.remove()

    def _do_only(self, chore: Chore) -> ExitStatus:
        result = self._chore(chore)
        if result is None:
            self._cancel()
            return ExitStatus.INTERRUPTED if self._stop else ExitStatus.ENVIRONMENT
        self.say(result)
        return result.exit

    # The launches.

    def _launch_all(self, run: RunRequest) -> ExitStatus:
        running = GridRunning(run, self._exchange, self._jobs, self.say)
        running.begin()
        while not running.ended and not self._stop and not self._jobs.gone:
            self._turn()
            running.tell_losses()
        if not running.ended:
            self._cancel()
        self._read_samples()
        running.close()
        if self._jobs.gone:
            self.say(Problem(what=self._jobs.gone, remedy="see why, with: gridwright status, or sinfo -R"))
            return ExitStatus.ENVIRONMENT
        if self._stop:
            return ExitStatus.INTERRUPTED
        if running.strays and not run.keep:
            self._tidy()
        return ExitStatus.DONE

    def _turn(self) -> None:
        self._pause()
        self._jobs.turn()
        self._read_samples()

    def _pause(self) -> None:
        """Wait a moment for orders, and give signs of life."""
        least, most = _TICK_S
        calm = min(1.0, (time.monotonic() - self._happened) / _CALM_S)
        for key, _ in self._selector.select(least + (most - least) * calm):
            key.data()
        now = time.monotonic()
        if now - self._beat > BEAT_S and not self._jobs.stopping:
            self._beat = now
            self._exchange.beat()
        if self._request.heartbeats and now - self._heard > SILENT_S:
            self._stop = True
        if now - self._told > _ALIVE_S:
            self.say(AgentAlive())

    def _read_samples(self) -> None:
        for node in self._exchange.names(SAMPLES):
            tail = self._tails.setdefault(node, Tail(self._exchange.file(node, SAMPLES)))
            # Hundreds a second on a large grid: the command decodes them, and nobody before.
            for row in tail.read():
                self._write(row)

    # Ends.

    def _interrupted(self) -> ExitStatus:
        self._cancel()
        return ExitStatus.INTERRUPTED

    def _cancel(self) -> None:
        """End all jobs of the run, and wait a limited time for their last results."""
        if self._jobs.ended:
            return
        self._exchange.order_stop()
        self._jobs.cancel()
        deadline = time.monotonic() + _LAST_WORDS_S
        with contextlib.suppress(GridwrightError, OSError):
            while not self._jobs.ended and time.monotonic() < deadline:
                self._turn()
        left = [job.id for job in self._jobs.live if job.id is not None]
        for job in self._jobs.live:
            self._jobs.give_up(job)
        if left:
            text = f"jobs were told to end and have not yet: {', '.join(left[:8])}"
            text += f" and {len(left) - 8} more" if len(left) > 8 else ""
            remedy = "they end by themselves within two minutes; if one does not: gridwright cancel JOB"
            self.say(Finding("warning", "workload-jobs-left", text, remedy))

    # Chores.

    def _chore(self, chore: Chore, seconds: float | None = None) -> ChoreDone | None:
        """Have a node do something, for at most `seconds`; returns what came of it, None if nothing did."""
        run = self._request.run
        cores = run.workers if run is not None and chore == "prepare" else 1
        request = ChoreRequest(chore, self._request.libraries, run if chore == "prepare" else None)
        self._exchange.write(chore, REQUEST, request)
        ended: list[GridJob[ChoreDone]] = []
        self._jobs.add(
            GridJob(
                chore,
                job_request(
                    "chore",
                    str(self._exchange.file(chore, REQUEST)),
                    cores=cores,
                    time_limit_s=_CHORE_TIME_S if seconds is None else seconds,
                    restart=True,
                ),
                leaves=ChoreDone,
                quiet_s=_CHORE_QUIET_S,
                begun=lambda _: None,
                ended=ended.append,
                lost=lambda _, node, _begun: self._chore_lost(chore, node),
            )
        )
        deadline = time.monotonic() + (_CHORE_TIME_S if seconds is None else seconds)
        while not ended and not self._stop and not self._jobs.gone and time.monotonic() < deadline:
            self._turn()
        if not ended:
            return None
        if ended[0].result is None:
            self._chore_failed(ended[0])
        return ended[0].result

    def _chore_lost(self, chore: str, node: str) -> None:
        text = f"node {node} was lost, or what ran jobs there, during the job {chore}: it was started again"
        self.say(Finding("warning", "workload-requeued", text, f"see why {node} failed"))

    def _chore_failed(self, job: GridJob[ChoreDone]) -> None:
        log = f"look into its log, {job.job.log}" if job.job and job.job.log else "see gridwright jobs"
        where = job.node
        what = f"the job {job.name} of the workload failed: {job.reason}"
        self.say(Problem(what=what, where=where, remedy=log))

    def _tidy(self) -> None:
        """Remove what launches left whose nodes were lost: a node sees the libraries, not this machine."""
        result = self._chore("tidy", _TIDY_S)
        if result is None or result.exit != ExitStatus.DONE:
            self._cancel()
            text = (
                f"directories of lost launches, .gridwright-workload-{self._exchange.run_id}-*, may be left"
            )
            remedy = "the next run of the workload removes them"
            self.say(Finding("warning", "workload-left", text, remedy))

    def _clear(self, stale: list[ExchangeDirectory]) -> None:
        """Cancel the jobs of runs whose coordinator was killed, and forget those runs."""
        if not stale:
            return
        prefixes = tuple(f"{PREFIX}{each.run_id}-" for each in stale)

        def cancel(scheduler: Scheduler) -> list[str]:
            live = (JobState.WAITING, JobState.RUNNING)
            jobs = [job for job in scheduler.jobs() if job.state in live and job.name.startswith(prefixes)]
            # Only now: jobs that end at once by this order are to be reported, too.
            for each in stale:
                each.order_stop()
            if jobs:
                scheduler.cancel([job.id for job in jobs])
            return [job.id for job in jobs]

        done: list[list[str]] = []
        while not done and not self._stop:
            if self._calls.free:
                self._calls.ask(cancel, done.append)
            self._pause()
            self._calls.deliver()
        for directory in stale if done else ():
            directory.remove()
        if done and done[0]:
            jobs = ", ".join(done[0][:8])
            text = f"{len(done[0])} jobs of a killed run of the workload were cancelled: {jobs}"
            self.say(Finding("info", "workload-stale-removed", text, "nothing is to be done"))


def main() -> None:
    """Serve one request: a line on stdin, whose end is an order to stop."""
    line = bytearray()
    while not line.endswith(b"\n") and (chunk := os.read(0, 1 << 16)):
        line += chunk
    request = decode(bytes(line), GridRequest)
    GridAgent(request, lambda: _open_scheduler(request)).serve()
    # A call of the scheduler that hangs is no reason to stay.
    os._exit(0)


def _open_scheduler(request: GridRequest) -> Scheduler:
    from gridwright.grid.grid import Grid
    from gridwright.spec import parse_spec

    source = typed(request.grid, GridSource)
    file = Path(source.spec_file or "grid.yaml")
    spec = parse_spec(source.spec_text, str(file), file.absolute().parent)
    return (Grid.on_its_head(spec) if source.on_head else Grid.open(spec)).scheduler


if __name__ == "__main__":
    main()
