"""Lists jobs as users see them, from our record and Slurm's queue."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_directories import JobDirectories
from gridwright.schedulers.slurm.queue_row import QueueRow
from gridwright.schedulers.slurm.reconciliation import QueueView
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE, JobEnd, Submission
from gridwright.schedulers.slurm.submission import job_label, log_file
from gridwright.schedulers.slurm.translations import job_state, reason
from gridwright.state_parts import this_user


@dataclass(frozen=True, slots=True)
class JobElement:
    """One job of a submission."""

    submission: Submission
    number: int
    """Its index, or WHOLE."""

    def __hash__(self) -> int:
        return hash((self.submission.token, self.number))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobElement) and (self.submission.token, self.number) == (
            other.submission.token,
            other.number,
        )


def job_of(
    submission: Submission,
    record: JobRecord,
    standing: QueueView,
    directories: JobDirectories,
    memory_bytes: int | None,
) -> dict[int, Job]:
    """All jobs of a submission, by element; `memory_bytes` is what was asked of Slurm, 0 all of a node's."""
    ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
    rows: dict[int, QueueRow] = {}
    for row in standing.rows.get(submission.tag, ()):
        for number in (WHOLE,) if row.indices is None else row.indices:
            rows[number] = row
    return {
        number: _job(
            submission,
            number,
            end=ended.get(number),
            row=rows.get(number),
            cancelled=number in cancelled,
            directories=directories,
            memory_bytes=memory_bytes,
        )
        for number in submission.elements
    }


def _job(
    submission: Submission,
    number: int,
    *,
    end: JobEnd | None,
    row: QueueRow | None,
    cancelled: bool,
    directories: JobDirectories,
    memory_bytes: int | None,
) -> Job:
    request = submission.request
    state, sentence = JobState.WAITING, "it is being handed in to Slurm"
    attempt = end.attempt if end is not None else submission.attempt
    index = None if number == WHOLE else number
    log = log_file(directories.logs, request, JobTag(submission.token, attempt), index, submission.slurm_id)
    if end is not None:
        state, sentence = end.state, end.reason or ""
    elif row is not None:
        word = job_state(row.words)
        state, sentence = word.state, word.sentence
        if state.final:
            state, sentence = JobState.RUNNING, "it has ended and its node is cleaning up"
        if state is JobState.WAITING and not sentence:
            sentence = reason(row.reason).sentence
        if cancelled:
            sentence = "it is being cancelled"
    elif submission.orphaned_until is not None and log.exists():
        state, sentence = (
            JobState.RUNNING,
            "slurmctld has lost it, and its node goes on with it or has killed it",
        )
    return Job(
        id=f"{submission.identifier}" if index is None else f"{submission.identifier}_{index}",
        name=job_label(request),
        state=state,
        queue=end.queue if end is not None else row.partition if row is not None else request.queue,
        user=this_user(),
        cores=request.cores,
        memory_bytes=request.memory_bytes or memory_bytes or None,
        exit_status=end.exit_status if end is not None else None,
        signal=end.signal if end is not None else None,
        reason=sentence or None,
        node=_node(end, row),
        submitted=submission.submitted,
        started=end.started if end is not None else row.started if row is not None else None,
        ended=end.ended if end is not None else None,
        restarts=end.restarts if end is not None else submission.interruptions + (row.restarts if row else 0),
        log=str(log),
        flow=request.options.flow,
    )


def _node(end: JobEnd | None, row: QueueRow | None) -> str | None:
    if end is not None:
        return end.node
    return row.node if row is not None else None
