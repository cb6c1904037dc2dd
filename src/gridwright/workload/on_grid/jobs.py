"""The jobs of one run on several nodes: submitted together, and watched with one query for all.

A job has ended when its result is in the exchange directory, whatever its scheduler says: that is seen at
once. The query of all jobs, which costs more, is there for those that leave none.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from gridwright.errors import Finding, GridwrightError, environment_error
from gridwright.messages import MessageError, typed
from gridwright.runs.workload_events import WORKLOAD_EVENTS, WorkloadEvent
from gridwright.schedulers.head_node import PATIENCE_S, Silence
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.workload.exchange import EVENTS, RESULT, STARTED, ExchangeDirectory, Tail
from gridwright.workload.messages import JobStart

Result = TypeVar("Result")


@dataclass(slots=True)
class GridJob(Generic[Result]):
    """A job of the run, until its result is there or it is given up."""

    name: str
    """In the exchange directory."""
    request: JobRequest
    leaves: type[Result]
    """What kind of result it leaves."""
    quiet_s: float
    """A job that runs and for so long neither said anything nor ended hangs."""
    begun: Callable[[GridJob[Result]], None]
    """Called each time it has started on a node."""
    ended: Callable[[GridJob[Result]], None]
    """Called once."""
    lost: Callable[[GridJob[Result], str, bool], None]
    """Called each time its node, which is named, was lost and it starts again; and whether it had begun."""
    id: str | None = None
    submissions: int = 0
    submitted: float | None = None
    """Unix time of the last submission."""
    job: Job | None = None
    """As the scheduler saw it last."""
    starts: list[JobStart] = field(default_factory=list)
    on: str | None = None
    """The node on which it has begun, as far as is known."""
    result: Result | None = None
    reason: str = ""
    """Why there is no result."""
    node_lost: bool = False
    restarts: int = 0
    lost_on: list[str] = field(default_factory=list)
    lost_here: int = 0
    """How often it was lost since it was submitted last."""
    heard: float = 0.0
    asked_to_end: float | None = None
    missing_since: float | None = None
    tail: Tail | None = None
    started_tail: Tail | None = None

    @property
    def node(self) -> str | None:
        """Where it runs, or ran last."""
        if self.starts:
            return self.starts[-1].node
        return self.job.node if self.job else None

    @property
    def scheduler_name(self) -> str:
        """Its name in the scheduler; no two submissions of a run share one."""
        return self.request.name


def _why_no_result(state: Job) -> str:
    """Why a job ended without a result, in the words of its scheduler."""
    said = f": {state.reason}" if state.reason else ""
    if state.state == JobState.OUT_OF_MEMORY:
        return f"its job used more memory than it may{said}"
    if state.state == JobState.TIMED_OUT:
        return f"its job was ended by the scheduler at its time limit{said}"
    if state.state == JobState.CANCELLED:
        return f"its job was cancelled{said}"
    if state.state == JobState.NODE_FAILED:
        return f"its node was lost{f' ({state.node})' if state.node else ''}{said}"
    ended = f"signal {state.signal}" if state.signal else f"exit status {state.exit_status}"
    return f"its job ended with {ended} and without a result{said}"


T = TypeVar("T")

_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class _Call:
    what: Callable[[Scheduler], Any]
    then: Callable[[Any], None]
    failed: Callable[[], None]


class SchedulerCalls:
    """One call at a time; `deliver` hands over its answer, in the thread of the loop."""

    def __init__(
        self,
        open_scheduler: Callable[[], Scheduler],
        tell: Callable[[Finding], None],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`open_scheduler` is called in the thread that asks: a scheduler may be for one thread only."""
        self._open = open_scheduler
        self._silence = Silence(
            lambda level, text, remedy: tell(Finding(level, "workload-scheduler-silent", text, remedy)),
            meanwhile="what runs goes on",
            patience_s=patience_s,
        )
        self._orders: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._call: _Call | None = None
        self._not_before = 0.0
        self.took_s = 0.0
        """How long the last call took."""
        # A thread that hangs must not keep the process from ending.
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def free(self) -> bool:
        """Whether another call can be made now."""
        return self._call is None and time.monotonic() >= self._not_before

    def ask(
        self,
        what: Callable[[Scheduler], T],
        then: Callable[[T], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a call; `then` gets its answer, `failed` is called where there was none."""
        if self._call is not None:
            raise RuntimeError("the last call has not been answered yet")
        self._call = _Call(what, then, failed)
        self._orders.put(self._call)

    def deliver(self) -> None:
        """Hand over the answer if it is there.

        Raises GridwrightError for a wrong request, and when the scheduler has been silent for too long.
        """
        try:
            answer, error = self._answers.get_nowait()
        except queue.Empty:
            self._silence.check()
            return
        call, self._call = self._call, None
        if call is None:
            raise RuntimeError("an answer without a call")
        if error is None:
            self._silence.answered()
            call.then(answer)
            return
        call.failed()
        if not isinstance(error, GridwrightError):
            raise error
        now = time.monotonic()
        self._not_before = now + _RETRY_S
        self._silence.unanswered(error, now - self.took_s)

    def _serve(self) -> None:
        scheduler: Scheduler | None = None
        while True:
            call = self._orders.get()
            began = time.monotonic()
            try:
                if scheduler is None:
                    scheduler = self._open()
                answer, error = call.what(scheduler), None
            except Exception as raised:  # handed over to the loop, which raises it
                answer, error = None, raised
            self.took_s = time.monotonic() - began
            self._answers.put((answer, error))


Left = TypeVar("Left")
PREFIX = "workload-"
MOST_SUBMISSIONS = 3
"""A job whose node is lost is submitted again until it was so often."""
_POLL_S = (0.5, 10.0)
"""Between two queries: at least, and at most where they take long."""
_POLL_SHARE = 10.0
"""A query may take a tenth of the time."""
_VISIBLE_S = 3.0
"""A result may be seen here so much later than the end of its job."""
_UNKNOWN_S = 60.0
_CANCELLED_S = 60.0
_START_S = 300.0
"""From the start of a job, as its scheduler sees it, to its first word."""
_NO_NODES_S = 600.0
_WAITING_S = 60.0


class GridJobs:
    """All jobs of a run that have not ended; the caller's loop calls `turn`."""

    def __init__(
        self,
        exchange: ExchangeDirectory,
        calls: SchedulerCalls,
        tell: Callable[[WorkloadEvent], None],
    ) -> None:
        """`tell` gets findings, and what the jobs say."""
        self._exchange = exchange
        self._calls = calls
        self._tell = tell
        self._live: dict[str, GridJob[Any]] = {}
        self._ready: list[GridJob[Any]] = []
        self._uncertain: list[GridJob[Any]] = []
        self._superfluous: set[str] = set()
        self._polled = 0.0
        self._moved = time.monotonic()
        self._told_waiting = False
        self._looked_for_nodes = 0.0
        self._no_nodes_since: float | None = None
        self.gone = ""
        """Why no job can ever start."""
        self.stopping = False
        self._cancel = False

    @property
    def ended(self) -> bool:
        """Whether no job is left."""
        return not self._live

    @property
    def live(self) -> list[GridJob[Any]]:
        """The jobs that have not ended."""
        return list(self._live.values())

    def add(self, job: GridJob[Any]) -> None:
        """Have a job submitted with the next turn."""
        self._live[job.name] = job
        self._ready.append(job)

    def turn(self) -> None:
        """Look at what has happened, and do what is next. Raises GridwrightError and OSError."""
        self._read_exchange()
        self._calls.deliver()
        if not self._calls.free:
            return
        if self._cancel:
            self._cancel_all()
        elif self._superfluous:
            self._cancel_superfluous()
        elif self._uncertain:
            self._calls.ask(lambda scheduler: scheduler.jobs(), self._find_uncertain)
        elif self._ready:
            self._submit()
        elif self._live and time.monotonic() - self._polled >= self._interval():
            self._poll()

    def _interval(self) -> float:
        least, most = _POLL_S
        return min(most, max(least, _POLL_SHARE * self._calls.took_s))

    # What the jobs leave in the exchange directory.

    def _read_exchange(self) -> None:
        if not self._live:
            return
        started, events, results = (self._exchange.names(kind) for kind in (STARTED, EVENTS, RESULT))
        for job in self.live:
            if job.name in started:
                self._read_starts(job)
            if job.name in events:
                self._read_events(job)
            if job.name in results:
                self._read_result(job)

    def _read_starts(self, job: GridJob[Any]) -> None:
        if job.started_tail is None:
            job.started_tail = Tail(self._exchange.file(job.name, STARTED))
        for start in [_agreed(job, each, partial(typed, kind=JobStart)) for each in job.started_tail.read()]:
            if job.on is not None:
                self._lose(job, job.on)
            job.starts.append(start)
            job.on = start.node
            job.heard = self._moved = time.monotonic()
            job.begun(job)

    def _read_events(self, job: GridJob[Any]) -> None:
        if job.tail is None:
            job.tail = Tail(self._exchange.file(job.name, EVENTS))
        for event in [_agreed(job, each, WORKLOAD_EVENTS.read) for each in job.tail.read()]:
            job.heard = self._moved = time.monotonic()
            if event is not None:
                self._tell(event)

    def _read_result(self, job: GridJob[Any]) -> None:
        result = self._exchange.read(job.name, RESULT)
        if result is not None:
            job.result = _agreed(job, result, partial(typed, kind=job.leaves))
            if job.restarts and job.id is not None:
                # A node that was only cut off may answer when the job already runs on another, too.
                self._superfluous.add(job.id)
            self._finish(job)

    def _finish(self, job: GridJob[Any]) -> None:
        del self._live[job.name]
        self._ready = [each for each in self._ready if each is not job]
        self._uncertain = [each for each in self._uncertain if each is not job]
        self._exchange.forget(job.name)
        self._moved = time.monotonic()
        job.ended(job)

    # Handing in.

    def _submit(self) -> None:
        batch, self._ready = self._ready, []
        for job in batch:
            job.submissions += 1
            name = f"{PREFIX}{self._exchange.run_id}-{job.name}"
            suffix = f".{job.submissions}" if job.submissions > 1 else ""
            job.request = replace(job.request, name=name + suffix)
            job.submitted = time.time()
        requests = [job.request for job in batch]

        def submitted(identifiers: list[str]) -> None:
            for job, identifier in zip(batch, identifiers, strict=True):
                self._is_in(job, identifier)

        def failed() -> None:
            # They may have reached the scheduler all the same: their names tell.
            self._uncertain += [job for job in batch if job.name in self._live]

        self._calls.ask(lambda scheduler: scheduler.submit(requests), submitted, failed)

    def _is_in(self, job: GridJob[Any], identifier: str) -> None:
        job.id, job.job, job.missing_since, job.asked_to_end = identifier, None, None, None
        job.lost_here = 0
        job.heard = time.monotonic()

    def _find_uncertain(self, jobs: Sequence[Job]) -> None:
        """See which jobs of a submission that failed are there; the others are submitted again."""
        by_name = {job.name: job.id for job in jobs}
        uncertain, self._uncertain = self._uncertain, []
        for job in uncertain:
            if (identifier := by_name.get(job.scheduler_name)) is not None:
                self._is_in(job, identifier)
            else:
                job.submissions -= 1
                self._ready.append(job)

    # Watching.

    def _poll(self) -> None:
        self._polled = time.monotonic()
        waiting = any(job.starts == [] for job in self._live.values())
        still = waiting and time.monotonic() - self._moved > _WAITING_S
        if still and time.monotonic() - self._looked_for_nodes > _WAITING_S:
            self._looked_for_nodes = time.monotonic()
            self._calls.ask(
                lambda scheduler: any(node.up or node.asleep for node in scheduler.nodes()),
                self._hear_of_nodes,
            )
            return
        late = [job for job in self.live if self._hangs(job)]
        if late:
            self._end(late)
            return
        asked = {job.id: job for job in self._live.values() if job.id is not None}
        if asked:
            self._calls.ask(
                lambda scheduler: scheduler.jobs(asked.keys()), lambda jobs: self._compare(asked, jobs)
            )

    def _hangs(self, job: GridJob[Any]) -> bool:
        if job.job is None or job.job.state != JobState.RUNNING or job.asked_to_end is not None:
            return False
        return time.monotonic() - job.heard > (_START_S if job.on is None else job.quiet_s)

    def _end(self, jobs: Sequence[GridJob[Any]]) -> None:
        """End jobs that hang; those that do not even end are given up later."""
        identifiers = [job.id for job in jobs if job.id is not None]
        for job in jobs:
            job.asked_to_end = time.monotonic()
            job.reason = f"node {job.node} does not answer: its job neither ended nor said anything in time"
        self._calls.ask(lambda scheduler: scheduler.cancel(identifiers), lambda _: None)

    def _compare(self, asked: dict[str, GridJob[Any]], jobs: Sequence[Job]) -> None:
        found = {job.id: job for job in jobs}
        # What has ended meanwhile has its result by now.
        self._read_exchange()
        for identifier, job in asked.items():
            if job.name not in self._live or job.id != identifier:
                continue
            state = found.get(identifier)
            if state is None:
                self._missing(job)
            else:
                self._see(job, state)
        self._tell_waiting()

    def _missing(self, job: GridJob[Any]) -> None:
        now = time.monotonic()
        job.missing_since = now if job.missing_since is None else job.missing_since
        if now - job.missing_since > _UNKNOWN_S:
            job.reason = "its scheduler no longer knows its job"
            self._finish(job)

    def _see(self, job: GridJob[Any], state: Job) -> None:
        before, job.job = job.job, state
        now = time.monotonic()
        if job.asked_to_end is not None and now - job.asked_to_end > _CANCELLED_S:
            self._finish(job)
        elif state.state.final:
            job.missing_since = now if job.missing_since is None else job.missing_since
            if now - job.missing_since > _VISIBLE_S:
                self._end_without_result(job, state)
        else:
            job.missing_since = None
            if state.state == JobState.RUNNING and (before is None or before.state != JobState.RUNNING):
                job.heard = now
            if state.restarts > job.lost_here:
                self._restarted(job, before, state)
                job.lost_here = state.restarts

    def _restarted(self, job: GridJob[Any], before: Job | None, state: Job) -> None:
        """Find out on which node a job was lost that its scheduler starts again."""
        if job.on is not None:
            # Where it runs on the node where it has begun, that is the new start.
            if state.state == JobState.WAITING or state.node != job.on:
                self._lose(job, job.on)
        elif before is not None and before.node:
            self._lose(job, before.node)

    def _lose(self, job: GridJob[Any], node: str) -> None:
        begun, job.on = job.on is not None, None
        job.lost_on.append(node)
        job.restarts += 1
        job.lost_here += 1
        job.heard = self._moved = time.monotonic()
        job.lost(job, node, begun)

    def _end_without_result(self, job: GridJob[Any], state: Job) -> None:
        if state.state == JobState.NODE_FAILED and not job.asked_to_end:
            node = job.on or job.node or "unknown"
            if job.submissions < MOST_SUBMISSIONS and not self.stopping:
                self._lose(job, node)
                job.id, job.job, job.missing_since = None, None, None
                self._ready.append(job)
                return
            job.lost_on.append(node)
            job.node_lost = True
        job.reason = "interrupted" if self.stopping else job.reason or _why_no_result(state)
        self._finish(job)

    # Nothing starts.

    def _hear_of_nodes(self, some_up: bool) -> None:
        now = time.monotonic()
        if some_up:
            self._no_nodes_since = None
            return
        self._no_nodes_since = now if self._no_nodes_since is None else self._no_nodes_since
        if now - self._no_nodes_since > _NO_NODES_S:
            self.gone = f"no node of the grid has been up for {_NO_NODES_S / 60:.0f} minutes"

    def _tell_waiting(self) -> None:
        """Say once why nothing runs: a grid that is busy with other jobs, or has no node that fits."""
        if self._told_waiting or time.monotonic() - self._moved < _WAITING_S:
            return
        waiting = [job for job in self.live if job.job and job.job.state == JobState.WAITING]
        if not waiting or len(waiting) < len(self._live):
            return
        self._told_waiting = True
        job = waiting[0]
        reason = job.job.reason if job.job else None
        self._tell(
            Finding(
                "info",
                "workload-waiting",
                f"all jobs of the workload have been waiting for {_WAITING_S:.0f} s or more"
                f"{f': {reason}' if reason else ''}",
                f"see what they wait for: gridwright explain {job.id}",
            )
        )

    def give_up(self, job: GridJob[Any]) -> None:
        """Wait no longer for the last results of a job that was told to end."""
        job.reason = job.reason or "interrupted"
        self._finish(job)

    def cancel(self) -> None:
        """End all jobs, in one call; the caller goes on to call `turn` for their last results."""
        self.stopping = self._cancel = True

    def _cancel_superfluous(self) -> None:
        superfluous, self._superfluous = self._superfluous, set()
        self._calls.ask(lambda scheduler: scheduler.cancel(superfluous), lambda _: None)

    def _cancel_all(self) -> None:
        self._cancel = False
        handed_in = {job.id for job in self._live.values() if job.id} | self._superfluous
        # Of a submission that failed, the names tell what has reached the scheduler.
        names = {job.scheduler_name for job in self._live.values() if not job.id}
        self._ready, self._uncertain = [], []

        def cancel(scheduler: Scheduler) -> set[str]:
            named = {job.id: job.name for job in scheduler.jobs() if job.name in names} if names else {}
            if handed_in | named.keys():
                scheduler.cancel(handed_in | named.keys())
            return set(named.values())

        def cancelled(named: set[str]) -> None:
            for job in self.live:
                if not job.id and job.scheduler_name not in named:
                    self.give_up(job)

        def failed() -> None:
            self._cancel = True

        self._calls.ask(cancel, cancelled, failed)


def _agreed(job: GridJob[Any], data: Any, read: Callable[[Any], Left]) -> Left:  # noqa: ANN401 - plain data
    """What a job has left. Raises GridwrightError where it is of another release."""
    try:
        return read(data)
    except MessageError as error:
        raise environment_error(
            f"the job {job.name} left what is not as agreed: {error}",
            where=job.node,
            remedy="install the same gridwright on all nodes",
        ) from error
