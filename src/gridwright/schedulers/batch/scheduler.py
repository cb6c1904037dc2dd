"""The scheduler of a grid with a batch system of a site's own: the protocol Scheduler on a BatchSystem.

Removes private directories of jobs that were killed with the program that would have removed them.

Lists jobs as users see them, from our record and the queue of the batch system.

Explains why a job waits: compares what it needs with its queue and with every node.

Reconciles our record of jobs with the batch system, at the start of every call.

How a job ended is told by the program that ran it on its node; the accounting of the batch system tells why
one was killed. A job that has left the queue has ended; one that is still in there is not taken for ended,
as its node is not free yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE, RunEnd
from gridwright.schedulers.batch.record import (
    BatchRecord,
    JobEnd,
    Submission,
    by_tokens,
    doom_sentence,
    states_of,
    unknown_job,
    waited_for,
)
from gridwright.schedulers.batch.recorded import (
    CANCELLED_BY_USER,
    ListedState,
    RecordedScheduler,
    adopt,
    listed_job,
    node_check,
    note_seen,
    output_file,
    private_prefix,
    queue_check,
    sweep,
)
from gridwright.schedulers.batch.submission import (
    LEASE_S,
    BatchDirectories,
    LastRun,
    Outgoing,
    Submitter,
    memory_of,
    own_problems,
    request_problems,
)
from gridwright.schedulers.batch.system import BatchFacts, BatchQueue, BatchRow, BatchSystem
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import (
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    JobTag,
    NodeState,
    PlacementCheck,
    Requirement,
    exit_reason,
    new_token,
)
from gridwright.schedulers.job_request import DependencyType, option_problems
from gridwright.spec.scheduler import SchedulerSection
from gridwright.state_parts import KEPT_S
from gridwright.units import format_bytes

_SEEN_EVERY_S = 10.0


@dataclass
class BatchQueueView:
    """The jobs that have not ended, and their rows in the queue."""

    live: list[Submission] = field(default_factory=list)
    rows: Mapping[JobTag, Mapping[int, BatchRow]] = field(default_factory=dict)
    """By position."""

    def row(self, submission: Submission, element: int) -> BatchRow | None:
        """The row of a job in the queue."""
        return self.rows.get(submission.tag, {}).get(position(submission, element))


def position(submission: Submission, element: int) -> int:
    """Where an element stands in its array, from 1; WHOLE where it is none."""
    return WHOLE if element == WHOLE else submission.elements.index(element) + 1


class Reconciliation:
    """One look at the batch system, and what follows from it."""

    def __init__(self, system: BatchSystem, directories: BatchDirectories, record: BatchRecord) -> None:
        self._system = system
        self._directories = directories
        self._record = record
        self._now = time.time()

    def view(self) -> BatchQueueView:
        """Bring the record up to date, submit what was not. Raises GridwrightError (ENVIRONMENT)."""
        live = self._record.live()
        if not live:
            return BatchQueueView()
        rows: dict[JobTag, dict[int, BatchRow]] = {}
        for row in self._system.queue():
            if not row.state.final:
                rows.setdefault(row.tag, {}).update(dict.fromkeys(row.positions, row))
        adopt(self._record, live, _numbers(rows))
        view = BatchQueueView(self._record.live(), rows)
        missing = self._end_by_runs(view)
        missing = self._end_by_accounting(missing)
        self._settle(missing)
        self._cancel_again(view)
        note_seen(self._record, view.live, rows, now=self._now, every_s=_SEEN_EVERY_S)
        still = self._record.live()
        for token in {each.token for each in view.live} - {each.token for each in still}:
            ended = next(each for each in view.live if each.token == token)
            self._directories.forget(ended.tag)
        return BatchQueueView(still, rows)

    def _end_by_runs(self, view: BatchQueueView) -> dict[str, _Missing]:
        """Write down what has left the queue and told how it ended; what has not told, by token."""
        ends: list[JobEnd] = []
        missing: dict[str, _Missing] = {}
        for submission in view.live:
            if submission.number is None and submission.lease > self._now:
                continue
            known = self._record.ended(submission.token)
            rows = view.rows.get(submission.tag, {})
            gone = [
                element
                for place, element in enumerate(submission.elements, 1)
                if element not in known and (WHOLE if element == WHOLE else place) not in rows
            ]
            if not gone:
                continue
            runs = self._directories.last_runs(submission.tag)
            cancelled = self._record.cancelled(submission.token)
            untold: dict[int, LastRun | None] = {}
            for element in gone:
                run = runs.get(_key(element))
                end = run.end if run is not None else None
                if run is None and element in cancelled:
                    # Accounting has nothing of jobs that never began.
                    sentence = CANCELLED_BY_USER
                    ends.append(_otherwise(submission, element, JobState.CANCELLED, sentence, None))
                elif run is None or end is None or end.signal is not None:
                    untold[element] = run
                else:
                    ends.append(ended_by_run(submission, element, run.number, end))
            if untold:
                missing[submission.token] = _Missing(submission, untold, cancelled, not rows)
        self._record.end(ends)
        return missing

    def _end_by_accounting(self, missing: Mapping[str, _Missing]) -> dict[str, _Missing]:
        """Write down why jobs were killed; what the accounting does not know, by token."""
        requested = {each.submission.tag: each.submission.number for each in missing.values()}
        if not requested:
            return {}
        since = min(each.submission.submitted for each in missing.values())
        past: dict[JobTag, dict[int, BatchRow]] = {}
        for row in self._system.past(requested, since):
            # The name of a job is its user's to choose: one of another user may have our tag.
            if requested.get(row.tag) not in (None, row.number):
                continue
            past.setdefault(row.tag, {}).update(dict.fromkeys(row.positions, row))
        adopt(self._record, [each.submission for each in missing.values()], _numbers(past))
        ends: list[JobEnd] = []
        left: dict[str, _Missing] = {}
        for token, each in missing.items():
            rows = past.get(each.submission.tag, {})
            untold = {}
            for element, run in each.elements.items():
                told = rows.get(position(each.submission, element))
                if told is None or not told.state.final:
                    untold[element] = run
                else:
                    end = ended_by_row(each.submission, element, told, run, element in each.cancelled)
                    orphaned = (
                        run is None and end.state is JobState.CANCELLED and element not in each.cancelled
                    )
                    ends.append(self._for_whom(each.submission, end) if orphaned else end)
            if untold:
                left[token] = replace(each, elements=untold)
        self._record.end(ends)
        return left

    def _for_whom(self, submission: Submission, end: JobEnd) -> JobEnd:
        """The end of a job that the batch system did not start, with the job that it waited for in vain."""
        for each in waited_for(self._record, submission.request).on:
            ended = self._record.ended(each.submission.token)
            own = each.type is DependencyType.EACH
            elements = [end.element] if own else each.elements
            if any(one in ended and ended[one].state is not JobState.COMPLETED for one in elements):
                name = f"{each.identifier}_{end.element}" if own else each.identifier
                return replace(end, reason=doom_sentence(name))
        return end

    def _settle(self, missing: Mapping[str, _Missing]) -> None:
        """End what neither queue nor accounting knows, and submit what the batch system never had."""
        for each in missing.values():
            submission = each.submission
            if submission.number is None and not any(each.elements.values()):
                self._again(submission, each.cancelled)
                continue
            late = self._now - submission.seen > self._system.forgets_after_s
            if late and each.alone:
                # Whatever it was, it does not begin any more.
                self._directories.fence(submission.tag)
            self._record.end(
                [
                    end
                    for element, run in each.elements.items()
                    if (end := self._unknown_end(submission, element, run, element in each.cancelled, late))
                ]
            )

    def _unknown_end(
        self, submission: Submission, element: int, run: LastRun | None, cancelled: bool, late: bool
    ) -> JobEnd | None:
        name = self._system.name
        if cancelled and (run is None or late):
            return _otherwise(submission, element, JobState.CANCELLED, CANCELLED_BY_USER, run)
        if not late:
            return None
        if run is None:
            sentence = f"it was cancelled in {name} before it began"
            return _otherwise(submission, element, JobState.CANCELLED, sentence, run)
        if (end := run.end) is not None:
            return ended_by_run(submission, element, run.number, end)
        sentence = f"it was killed, and the accounting of {name} does not know why"
        return _otherwise(submission, element, JobState.FAILED, sentence, run)

    def _again(self, submission: Submission, cancelled: set[int]) -> None:
        """Submit a job whose submitter was killed, or had no answer."""
        self._directories.fence(submission.tag)
        if self._directories.last_runs(submission.tag):
            return
        if cancelled >= set(submission.elements):
            sentence = CANCELLED_BY_USER
            self._record.end(
                [
                    _otherwise(submission, element, JobState.CANCELLED, sentence, None)
                    for element in submission.elements
                ]
            )
            return
        waits = waited_for(self._record, submission.request)
        if any(each.submission.number is None for each in waits.on):
            return
        tag = self._record.claim(submission.tag, self._now + LEASE_S)
        if tag is None:
            return
        outgoing = Outgoing(submission.request, tag, waits, submission.memory)
        try:
            self._record.accepted([Submitter(self._system, self._directories, self._record).submit(outgoing)])
        except GridwrightError as error:
            if error.status is not ExitStatus.INPUT:
                self._record.released([submission.token])
                raise
            self._record.end(
                [
                    _otherwise(submission, element, JobState.CANCELLED, error.problems[0].what, None)
                    for element in submission.elements
                ]
            )

    def _cancel_again(self, view: BatchQueueView) -> None:
        """Cancel jobs whose user cancelled them in a command that was killed."""
        targets = []
        for submission in view.live:
            rows = view.rows.get(submission.tag)
            if not rows:
                continue
            for element in self._record.cancelled(submission.token):
                place = position(submission, element)
                if place in rows and not rows[place].leaving:
                    targets.append((rows[place].number, None if element == WHOLE else [place]))
        if targets:
            self._system.cancel(targets)


@dataclass(frozen=True, slots=True)
class _Missing:
    """Jobs of one submission that are not in the queue, and have not told how they ended."""

    submission: Submission
    elements: dict[int, LastRun | None]
    cancelled: set[int]
    alone: bool
    """Whether the queue knows none of the submission's jobs."""


def _numbers(rows: Mapping[JobTag, Mapping[int, BatchRow]]) -> dict[JobTag, int]:
    """The batch system's number of each submission that it has a row of."""
    return {tag: next(iter(places.values())).number for tag, places in rows.items()}


def _key(element: int) -> str:
    return "job" if element == WHOLE else str(element)


def ended_by_run(submission: Submission, element: int, run: int, end: RunEnd) -> JobEnd:
    """How a job ended, as the program on its node tells it."""
    state = JobState.COMPLETED if end.completed else JobState.FAILED
    reason = exit_reason(end.status, end.signal)
    if end.doomed:
        state, reason = JobState.CANCELLED, doom_sentence(end.doomed, unneeded=end.unneeded)
    elif end.over_bytes is not None:
        state, reason = JobState.OUT_OF_MEMORY, _over_memory(submission)
    return JobEnd(
        token=submission.token,
        element=element,
        state=state,
        exit_status=end.status,
        signal=None if end.over_bytes is not None else end.signal,
        reason=reason,
        node=end.node or None,
        queue=submission.request.queue,
        started=None if end.doomed else end.started,
        ended=end.ended,
        restarts=run,
        user_s=end.user_s,
        system_s=end.system_s,
        most_bytes=end.most_bytes,
    )


def ended_by_row(
    submission: Submission, element: int, row: BatchRow, run: LastRun | None, cancelled: bool
) -> JobEnd:
    """How a job ended that was killed, as the batch system tells it."""
    end = run.end if run is not None else None
    state, reason = row.state, row.reason
    if cancelled and state is not JobState.COMPLETED:
        state, reason = JobState.CANCELLED, CANCELLED_BY_USER
    elif end is not None and state is JobState.FAILED:
        return replace(ended_by_run(submission, element, run.number if run else 0, end), queue=row.queue)
    by_itself = state in (JobState.COMPLETED, JobState.FAILED)
    if state is JobState.FAILED and reason is None:
        reason = exit_reason(row.exit_status, row.signal)
    elif state is JobState.OUT_OF_MEMORY and reason is None:
        reason = _over_memory(submission)
    return JobEnd(
        token=submission.token,
        element=element,
        state=state,
        exit_status=row.exit_status if by_itself else None,
        signal=row.signal if by_itself else None,
        reason=reason,
        node=row.node,
        queue=row.queue or submission.request.queue,
        started=row.started if run is not None else None,
        ended=row.ended or time.time(),
        restarts=run.number if run is not None else 0,
        most_bytes=row.most_bytes,
        swept=submission.request.keep or run is None or end is not None,
    )


def _over_memory(submission: Submission) -> str:
    memory = submission.memory
    return "used more memory than " + (f"the {format_bytes(memory)} that " if memory else "") + "it may use"


def _otherwise(
    submission: Submission, element: int, state: JobState, sentence: str, run: LastRun | None
) -> JobEnd:
    return JobEnd(
        token=submission.token,
        element=element,
        state=state,
        reason=sentence,
        queue=submission.request.queue,
        restarts=run.number if run is not None else 0,
        ended=time.time(),
        swept=submission.request.keep or run is None,
    )


def _summary(
    job: Job,
    system: str,
    says: str | None,
    dependencies: Sequence[tuple[str, JobState | None, bool]],
    candidates: Sequence[PlacementCheck],
) -> str:
    waited_for = [name for name, _, met in dependencies if not met]
    if waited_for:
        return f"It waits: jobs that it waits for have not ended as they should: {', '.join(waited_for)}."
    if job.reason:
        return f"It waits: {job.reason}." + (f" {system} says: {says}." if says else "")
    if says:
        return f"It waits. {system} says: {says}."
    if not any(candidate.fits for candidate in candidates[1:]):
        return "It waits: no node has now what it needs."
    return f"It waits for {system} to start it: a node has what it needs."


def _queue(
    request: JobRequest, queue: BatchQueue | None, dependencies: Sequence[tuple[str, JobState | None, bool]]
) -> PlacementCheck:
    return queue_check(
        request,
        queue,
        dependencies=[
            Requirement(
                name=f"after {identifier}",
                required="ended" if ":" in identifier else str(JobState.COMPLETED),
                provided="not ended" if state is None else str(state),
                fits=met,
            )
            for identifier, state, met in dependencies
        ],
    )


def _node(request: JobRequest, memory_bytes: int | None, node: NodeState) -> PlacementCheck:
    takes = Requirement(name="state", required="up", provided=node.standing, fits=node.up)
    # Not every batch system tells the memory of its nodes.
    return node_check(request, memory_bytes if node.memory_bytes else None, node, takes)


def _standing(
    submission: Submission, end: JobEnd | None, row: BatchRow | None, cancelled: bool, system: str
) -> tuple[JobState, str]:
    """How a job stands, and why in words, empty where nothing is known of that."""
    if end is not None:
        return end.state, end.reason or ""
    if row is not None:
        return row.state, "it is being cancelled" if cancelled else row.reason or ""
    if submission.number is not None:
        return JobState.RUNNING, f"it has left the queue of {system}, which has yet to tell how it ended"
    return JobState.WAITING, f"it is being submitted to {system}"


def clean_up(head: HeadNode, record: BatchRecord) -> None:
    """Remove what is left of jobs that have ended and were not to be kept; nothing without our own naming.

    A library that the head node does not see is on a disk of the job's node: what is left there stays.
    """
    leftovers = record.leftovers()
    left = [
        (submission, end, private_prefix(submission.tag, end.element))
        for end in leftovers
        if (submission := record.by_token(end.token)) is not None
    ]
    if any(status is None for _, _, status in sweep(head, left)):
        # The next command tries again.
        return
    if leftovers:
        record.swept(leftovers)


class BatchScheduler(RecordedScheduler[BatchRecord, BatchQueueView]):
    """Implements the protocol Scheduler on a BatchSystem; see RecordedScheduler."""

    others = "those of others, and those not submitted by it,"

    def __init__(
        self, system: BatchSystem, section: SchedulerSection, head: HeadNode, directories: BatchDirectories
    ) -> None:
        self._system = system
        self._section = section
        self._head = head
        self._directories: BatchDirectories = directories

    @contextmanager
    def _reconciled(self) -> Iterator[tuple[BatchRecord, BatchQueueView]]:
        with BatchRecord(self._directories.record) as record:
            view = Reconciliation(self._system, self._directories, record).view()
            clean_up(self._head, record)
            if record.fact("tidied", KEPT_S) is None:
                self._directories.tidy(_needed(record, view.live))
                record.keep_fact("tidied", "")
            yield record, view

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs; see Scheduler. All or none: where one is refused, the others are taken back."""
        if not requests:
            return []
        with self._reconciled() as (record, _):
            tokens = [new_token() for _ in requests]
            facts = self._checked(record, requests)
            sent = [
                replace(by_tokens(request, tokens[:number])[0], queue=request.queue or facts.default_queue)
                for number, request in enumerate(requests)
            ]
            memory = [memory_of(each, facts) for each in sent]
            intents = list(zip(tokens, sent, memory, strict=True))
            record.intend(
                ((token, request, {"memory": asked}) for token, request, asked in intents),
                time.time() + LEASE_S * len(sent),
            )
            return self._submit_all(record, intents)

    def _checked(self, record: BatchRecord, requests: Sequence[JobRequest]) -> BatchFacts:
        """The queues and nodes, when they could run all requests; else every problem at once."""
        problems = [
            option_problem for each in requests for option_problem in option_problems(each, self._section)
        ]
        problems += [
            own_problem for each in requests for own_problem in own_problems(each, self._system.name)
        ]
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        facts = self._system.facts()
        for number, request in enumerate(requests):
            problems += request_problems(request, facts, self._system)
            # Those of the same call have no identifier yet.
            earlier = [f"#{each}" for each in range(number)]
            unknown = waited_for(record, request).unknown
            problems += [unknown_job(record, name, self.others) for name in unknown if name not in earlier]
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        return facts

    def _submit_all(
        self, record: BatchRecord, intents: Sequence[tuple[str, JobRequest, int | None]]
    ) -> list[str]:
        submitter = Submitter(self._system, self._directories, record)
        answers: list[tuple[JobTag, int]] = []
        identifiers: list[str] = []
        with self._all_or_none(record, [token for token, _, _ in intents], answers):
            for token, request, memory in intents:
                waits = waited_for(record, request)
                answers.append(submitter.submit(Outgoing(request, JobTag(token, 0), waits, memory)))
                identifiers.append(record.accepted(answers[-1:])[token])
        return identifiers

    def _cancel_numbers(self, numbers: Sequence[int]) -> None:
        self._system.cancel([(number, None) for number in numbers])

    def _end_unsubmitted(self, record: BatchRecord, submission: Submission, elements: Sequence[int]) -> None:
        record.end(
            _otherwise(submission, each, JobState.CANCELLED, CANCELLED_BY_USER, None) for each in elements
        )

    def _cancel_submitted(
        self, view: BatchQueueView, targets: Sequence[tuple[Submission, list[int], list[int]]]
    ) -> None:
        orders: list[tuple[int, list[int] | None]] = []
        for submission, _, left in targets:
            whole = len(left) == len(submission.elements) or WHOLE in left
            if submission.number is not None:
                places = None if whole else [position(submission, each) for each in left]
                orders.append((submission.number, places))
        self._system.cancel(orders)

    def _listed(self, submission: Submission, record: BatchRecord, view: BatchQueueView) -> dict[int, Job]:
        ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        rows = view.rows.get(submission.tag, {})
        log = str(self._directories.log(submission.request, submission.tag))
        jobs = {}
        for place, element in enumerate(submission.elements, 1):
            end, row = ended.get(element), rows.get(WHOLE if element == WHOLE else place)
            state, sentence = _standing(submission, end, row, element in cancelled, self._system.name)
            own = output_file(submission, element)
            listed = ListedState(
                state=state,
                sentence=sentence,
                log=own or (f"{log}.log" if element == WHOLE else f"{log}_{element}.log"),
                memory_bytes=submission.request.memory_bytes or submission.memory,
            )
            jobs[element] = listed_job(submission, element, end, row, listed)
        return jobs

    def _waiting(
        self, record: BatchRecord, view: BatchQueueView, job: Job, submission: Submission, element: int
    ) -> JobExplanation:
        says = None
        if submission.number is not None:
            with contextlib.suppress(GridwrightError):
                says = self._system.why_waits(submission.number)
        request, facts = submission.request, self._system.facts()
        dependencies = states_of(record, request)
        name = request.queue or facts.default_queue
        candidates = [_queue(request, facts.queues.get(name) if name else None, dependencies)]
        nodes = [node for node in facts.nodes_of(name) if request.node in (None, node.name)]
        candidates += [_node(request, submission.memory, node) for node in nodes]
        summary = _summary(job, self._system.name, says, dependencies, candidates)
        return JobExplanation(job=job, summary=summary, candidates=candidates)

    def nodes(self) -> list[NodeState]:
        """All nodes that run jobs."""
        return list(self._system.facts().nodes.values())


def _needed(record: BatchRecord, live: Sequence[Submission]) -> set[str]:
    """Tokens of jobs that have not ended, and of those that they wait for."""
    needed = {each.token for each in live}
    for submission in live:
        needed |= {each.submission.token for each in waited_for(record, submission.request).on}
    return needed
