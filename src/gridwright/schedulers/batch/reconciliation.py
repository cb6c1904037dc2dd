"""Reconciles our record of jobs with the batch system, at the start of every call.

How a job ended is told by the program that ran it on its node; the accounting of the batch system tells why
one was killed. A job that has left the queue has ended; one that is still in there is not taken for ended,
as its node is not free yet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE, RunEnd
from gridwright.schedulers.batch.directories import BatchDirectories, LastRun
from gridwright.schedulers.batch.identifiers import doom_sentence, waited_for
from gridwright.schedulers.batch.record import BatchJobEnd, BatchRecord, BatchSubmission
from gridwright.schedulers.batch.submission import LEASE_S, Outgoing, Submitter
from gridwright.schedulers.batch.system import BatchRow, BatchSystem
from gridwright.schedulers.dependency import DependencyType
from gridwright.schedulers.exit_reason import exit_reason
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_tag import JobTag
from gridwright.units import format_bytes

_SEEN_EVERY_S = 10.0


@dataclass
class BatchQueueView:
    """The jobs that have not ended, and their rows in the queue."""

    live: list[BatchSubmission] = field(default_factory=list)
    rows: Mapping[JobTag, Mapping[int, BatchRow]] = field(default_factory=dict)
    """By position."""

    def row(self, submission: BatchSubmission, element: int) -> BatchRow | None:
        """The row of a job in the queue."""
        return self.rows.get(submission.tag, {}).get(position(submission, element))


def position(submission: BatchSubmission, element: int) -> int:
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
        """Bring the record up to date, hand in what was not. Raises GridwrightError (ENVIRONMENT)."""
        live = self._record.live()
        if not live:
            return BatchQueueView()
        rows: dict[JobTag, dict[int, BatchRow]] = {}
        for row in self._system.queue():
            if not row.state.final:
                rows.setdefault(row.tag, {}).update(dict.fromkeys(row.positions, row))
        self._adopt(live, {tag: next(iter(found.values())).number for tag, found in rows.items()})
        view = BatchQueueView(self._record.live(), rows)
        missing = self._end_by_runs(view)
        missing = self._end_by_accounting(missing)
        self._settle(missing)
        self._cancel_again(view)
        stale = [
            each.token for each in view.live if rows.get(each.tag) and self._now - each.seen > _SEEN_EVERY_S
        ]
        if stale:
            self._record.saw(stale)
        still = self._record.live()
        for token in {each.token for each in view.live} - {each.token for each in still}:
            ended = next(each for each in view.live if each.token == token)
            self._directories.forget(ended.tag)
        return BatchQueueView(still, rows)

    def _adopt(self, live: Sequence[BatchSubmission], numbers: Mapping[JobTag, int]) -> None:
        """Write down the numbers of jobs that were handed in, and whose answer nobody read."""
        self._record.accepted(
            [(each.tag, numbers[each.tag]) for each in live if each.number is None and each.tag in numbers]
        )

    def _end_by_runs(self, view: BatchQueueView) -> dict[str, _Missing]:
        """Write down what has left the queue and told how it ended; what has not told, by token."""
        ends: list[BatchJobEnd] = []
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
                    sentence = "its user cancelled it"
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
        wanted = {each.submission.tag: each.submission.number for each in missing.values()}
        if not wanted:
            return {}
        since = min(each.submission.submitted for each in missing.values())
        past: dict[JobTag, dict[int, BatchRow]] = {}
        for row in self._system.past(wanted, since):
            # The name of a job is its user's to choose: one of another user may have our tag.
            if wanted.get(row.tag) not in (None, row.number):
                continue
            past.setdefault(row.tag, {}).update(dict.fromkeys(row.positions, row))
        self._adopt(
            [each.submission for each in missing.values()],
            {tag: next(iter(found.values())).number for tag, found in past.items()},
        )
        ends: list[BatchJobEnd] = []
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

    def _for_whom(self, submission: BatchSubmission, end: BatchJobEnd) -> BatchJobEnd:
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
        """End what neither queue nor accounting knows, and hand in what the batch system never had."""
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
                    found
                    for element, run in each.elements.items()
                    if (found := self._unknown_end(submission, element, run, element in each.cancelled, late))
                ]
            )

    def _unknown_end(
        self, submission: BatchSubmission, element: int, run: LastRun | None, cancelled: bool, late: bool
    ) -> BatchJobEnd | None:
        name = self._system.name
        if cancelled and (run is None or late):
            return _otherwise(submission, element, JobState.CANCELLED, "its user cancelled it", run)
        if not late:
            return None
        if run is None:
            sentence = f"it was cancelled in {name} before it began"
            return _otherwise(submission, element, JobState.CANCELLED, sentence, run)
        if (end := run.end) is not None:
            return ended_by_run(submission, element, run.number, end)
        sentence = f"it was killed, and the accounting of {name} does not know why"
        return _otherwise(submission, element, JobState.FAILED, sentence, run)

    def _again(self, submission: BatchSubmission, cancelled: set[int]) -> None:
        """Hand in a job whose submitter was killed, or had no answer."""
        self._directories.fence(submission.tag)
        if self._directories.last_runs(submission.tag):
            return
        if cancelled >= set(submission.elements):
            sentence = "its user cancelled it"
            self._record.end(
                [
                    _otherwise(submission, each, JobState.CANCELLED, sentence, None)
                    for each in submission.elements
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
                    _otherwise(submission, each, JobState.CANCELLED, error.problems[0].what, None)
                    for each in submission.elements
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

    submission: BatchSubmission
    elements: dict[int, LastRun | None]
    cancelled: set[int]
    alone: bool
    """Whether the queue knows none of the submission's jobs."""


def _key(element: int) -> str:
    return "job" if element == WHOLE else str(element)


def ended_by_run(submission: BatchSubmission, element: int, run: int, end: RunEnd) -> BatchJobEnd:
    """How a job ended, as the program on its node tells it."""
    state = JobState.COMPLETED if end.completed else JobState.FAILED
    reason = exit_reason(end.status, end.signal)
    if end.doomed:
        state, reason = JobState.CANCELLED, doom_sentence(end.doomed, unneeded=end.unneeded)
    elif end.over_bytes is not None:
        state, reason = JobState.OUT_OF_MEMORY, _over_memory(submission)
    return BatchJobEnd(
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
    submission: BatchSubmission, element: int, row: BatchRow, run: LastRun | None, cancelled: bool
) -> BatchJobEnd:
    """How a job ended that was killed, as the batch system tells it."""
    end = run.end if run is not None else None
    state, reason = row.state, row.reason
    if cancelled and state is not JobState.COMPLETED:
        state, reason = JobState.CANCELLED, "its user cancelled it"
    elif end is not None and state is JobState.FAILED:
        return replace(ended_by_run(submission, element, run.number if run else 0, end), queue=row.queue)
    by_itself = state in (JobState.COMPLETED, JobState.FAILED)
    if state is JobState.FAILED and reason is None:
        reason = exit_reason(row.exit_status, row.signal)
    elif state is JobState.OUT_OF_MEMORY and reason is None:
        reason = _over_memory(submission)
    return BatchJobEnd(
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


def _over_memory(submission: BatchSubmission) -> str:
    memory = submission.memory
    return "used more memory than " + (f"the {format_bytes(memory)} that " if memory else "") + "it may use"


def _otherwise(
    submission: BatchSubmission, element: int, state: JobState, sentence: str, run: LastRun | None
) -> BatchJobEnd:
    return BatchJobEnd(
        token=submission.token,
        element=element,
        state=state,
        reason=sentence,
        queue=submission.request.queue,
        restarts=run.number if run is not None else 0,
        ended=time.time(),
        swept=submission.request.keep or run is None,
    )
