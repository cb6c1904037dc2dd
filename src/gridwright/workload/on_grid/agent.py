"""The workload on several nodes: has the data made, runs the streams as jobs of a scheduler, tells events.

It is to a grid what `agent` is to a single node, with the same request and the same kinds of event. It runs
in a process of its own, so that a state directory that does not answer is noticed by the command.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.messages import encode
from gridwright.runs.iotest_events import Ended
from gridwright.runs.journal import Event
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    AgentAlive,
    ChoreDone,
    WorkloadDone,
    WorkloadEvent,
)
from gridwright.schedulers.job import JobState
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
from gridwright.workload.messages import Chore, ChoreRequest, GridRequest, RunRequest
from gridwright.workload.on_grid.job import GridJob
from gridwright.workload.on_grid.jobs import PREFIX, GridJobs
from gridwright.workload.on_grid.running import GridRunning, job_request
from gridwright.workload.on_grid.scheduler_calls import SchedulerCalls

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
        asked = ChoreRequest(chore, self._request.libraries, run if chore == "prepare" else None)
        self._exchange.write(chore, REQUEST, asked)
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
        for each in stale if done else ():
            each.remove()
        if done and done[0]:
            jobs = ", ".join(done[0][:8])
            text = f"{len(done[0])} jobs of a killed run of the workload were cancelled: {jobs}"
            self.say(Finding("info", "workload-stale-removed", text, "nothing is to be done"))
