"""Reconciles our record of jobs with Slurm, at the start of every call.

slurmctld saves its state every few seconds. Killed in between, it forgets jobs that sbatch had an answer
for (see losses), brings back jobs that had ended or were cancelled, and gives numbers of lost jobs to
others. So a job is known by the token in its name; what has ended in our record stays so, and is cancelled
when Slurm brings it back; what was cancelled is cancelled again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.accounting import believed_row, read_past
from gridwright.schedulers.slurm.cluster import read_cluster
from gridwright.schedulers.slurm.collisions import drained_nodes, may_be_refused, resume, was_refused
from gridwright.schedulers.slurm.ends import (
    corrected,
    ended_by_slurm,
    last_run,
    write_ends,
)
from gridwright.schedulers.slurm.job_name import slurm_name
from gridwright.schedulers.slurm.losses import MissingJobs, note_orphans, settle_missing
from gridwright.schedulers.slurm.numbers import NUMBER
from gridwright.schedulers.slurm.queue import by_tag, read_queue
from gridwright.schedulers.slurm.queue_row import QueueRow
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE, JobEnd, Submission
from gridwright.schedulers.slurm.submission import job_label
from gridwright.schedulers.slurm.translations import job_state

_JUST_NOW_S = 3.0
_SEEN_EVERY_S = 20.0
"""How often it is written down that Slurm listed a job: less often than any sensible MinJobAge."""


@dataclass
class QueueView:
    """The jobs that have not ended, and their rows in Slurm's queue."""

    live: list[Submission] = field(default_factory=list)
    rows: Mapping[JobTag, Sequence[QueueRow]] = field(default_factory=dict)

    def has(self, submission: Submission) -> bool:
        """Whether Slurm's number of a submission is its own: seen in the queue, or given to it just now."""
        return bool(self.rows.get(submission.tag)) or time.time() - submission.seen < _JUST_NOW_S

    def row(self, submission: Submission, element: int) -> QueueRow | None:
        """The row of a job in the queue."""
        for row in self.rows.get(submission.tag, ()):
            if element == WHOLE if row.indices is None else element in row.indices:
                return row
        return None


def reconcile(access: SlurmAccess, record: JobRecord) -> QueueView:
    """Bring the record up to date and submit what Slurm has lost. Raises GridwrightError (ENVIRONMENT)."""
    live = record.live()
    if not live:
        return QueueView()
    began = time.time()
    queue = read_queue(access.tools, sum(len(each.elements) for each in live))
    rows = by_tag(queue)
    live = _adopt(record, live, rows)
    standing = QueueView(live, rows)
    refused = _refused(access, record, standing)
    missing = _write_ends(access, record, standing, refused)
    numbers = [f"{row.job_id}" for row in queue if row.name == NUMBER and row.words[0] == "PENDING"]
    scancel(access, numbers + _to_cancel(record, standing, began))
    absent, complete = _ask_accounting(access, record, standing, missing)
    absent += _quiet(record, standing, refused)
    if absent:
        settle_missing(access, record, absent, complete=complete)
    if refused:
        note_orphans(access, record, refused)
        resume(access.tools, drained_nodes(access.tools))
    _note_seen(record, standing, began)
    return QueueView(record.live(), rows)


def _adopt(
    record: JobRecord, live: Sequence[Submission], rows: Mapping[JobTag, Sequence[QueueRow]]
) -> list[Submission]:
    """Write down the numbers of jobs whose sbatch had an answer that nobody read."""
    found = [
        (each.tag, rows[each.tag][0].job_id) for each in live if each.slurm_id is None and rows.get(each.tag)
    ]
    if not found:
        return list(live)
    record.accepted(found)
    return record.live()


def _refused(access: SlurmAccess, record: JobRecord, standing: QueueView) -> dict[str, set[int]]:
    """Elements of which Slurm started a run twice, by token: see collisions."""
    begun: dict[str, int] | None = None
    refused: dict[str, set[int]] = {}
    for submission in standing.live:
        ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        found = {
            element: row
            for element, row in _placed(standing.rows.get(submission.tag, ())).items()
            if element not in ended and may_be_refused(row, cancelled=element in cancelled)
        }
        if not found:
            continue
        begun = access.directories.runs_begun() if begun is None else begun
        drained = drained_nodes(access.tools) if submission.orphaned_until is None else None
        elements = {
            element
            for element, row in found.items()
            if was_refused(access.directories, last_run(submission.tag, element, begun), row, drained)
        }
        if elements:
            refused[submission.token] = elements
    return refused


def _quiet(record: JobRecord, standing: QueueView, refused: Mapping[str, set[int]]) -> list[MissingJobs]:
    """Refused elements to be settled: those of arrays of which no other element is to come any more.

    A next attempt is one of a whole submission.
    """
    found = []
    for submission in standing.live:
        elements = refused.get(submission.token)
        if elements and set(submission.elements) - elements <= record.ended(submission.token).keys():
            found.append(MissingJobs(submission, tuple(sorted(elements)), alone=False, refused=True))
    return found


def _write_ends(
    access: SlurmAccess, record: JobRecord, standing: QueueView, refused: Mapping[str, set[int]]
) -> dict[str, tuple[int, ...]]:
    """Write down what has ended by the queue; elements that the queue does not have, by token."""
    ends: list[JobEnd] = []
    missing: dict[str, tuple[int, ...]] = {}
    now = time.time()
    for submission in standing.live:
        if submission.slurm_id is None and submission.held(now):
            continue
        known, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        placed = _placed(standing.rows.get(submission.tag, ()))
        lost = []
        for element in submission.elements:
            if element in known or element in refused.get(submission.token, ()):
                continue
            if element not in placed:
                lost.append(element)
            elif end := ended_by_slurm(submission, element, placed[element], element in cancelled):
                ends.append(corrected(access.directories, submission, end))
        if lost:
            missing[submission.token] = tuple(lost)
    write_ends(record, standing.live, ends)
    return missing


def _placed(rows: Sequence[QueueRow]) -> dict[int, QueueRow]:
    """Rows by element. An element that was requeued can be in two, and the one that has not ended counts."""
    placed: dict[int, QueueRow] = {}
    for row in rows:
        for element in (WHOLE,) if row.indices is None else row.indices:
            if element not in placed or not job_state(row.words).state.final:
                placed[element] = row
    return placed


def _to_cancel(record: JobRecord, standing: QueueView, began: float) -> list[str]:
    """What a restarted slurmctld brought back, by its numbers: earlier attempts, ended and cancelled jobs."""
    live = {each.token: each for each in standing.live}
    targets: list[str] = []
    for tag, rows in standing.rows.items():
        submission = live.get(tag.token) or record.by_token(tag.token)
        if submission is None:
            continue
        cancelled, ended = record.cancelled(tag.token), record.ended(tag.token)
        for row in rows:
            state = job_state(row.words)
            if state.state.final or "COMPLETING" in row.words:
                continue
            for element in (WHOLE,) if row.indices is None else row.indices:
                known = ended.get(element)
                if (
                    tag.attempt < submission.attempt
                    or element in cancelled
                    or (known is not None and known.recorded < began)
                ):
                    targets.append(f"{row.job_id}" if element == WHOLE else f"{row.job_id}_{element}")
    return targets


def _ask_accounting(
    access: SlurmAccess, record: JobRecord, standing: QueueView, missing: Mapping[str, tuple[int, ...]]
) -> tuple[list[MissingJobs], bool]:
    """Write down what has ended by the accounting; what it does not know, and whether it is complete."""
    if not missing:
        return [], True
    chosen = [each for each in standing.live if each.token in missing]
    cluster = read_cluster(access.tools, record)
    since = min(each.submitted for each in chosen)
    past = read_past(
        access.tools,
        cluster.config,
        {each.tag: slurm_name(job_label(each.request), each.tag) for each in chosen},
        since,
    )
    begun, adopted = access.directories.runs_begun(), dict[JobTag, int]()
    ends: list[JobEnd] = []
    absent: list[MissingJobs] = []
    for submission in chosen:
        cancelled = record.cancelled(submission.token)
        lost = []
        for element in missing[submission.token]:
            run = last_run(submission.tag, element, begun)
            wrote = access.directories.run_status(run) if run is not None else None
            row = believed_row(past.rows.get((submission.tag, element), ()), submission.slurm_id, wrote)
            if row is not None and submission.slurm_id is None:
                adopted[submission.tag] = row.job_id
            if row is None:
                lost.append(element)
            elif end := ended_by_slurm(submission, element, row, element in cancelled):
                ends.append(corrected(access.directories, submission, end))
        if lost:
            absent.append(MissingJobs(submission, tuple(lost), not standing.rows.get(submission.tag)))
    record.accepted(adopted.items())
    write_ends(record, standing.live, ends)
    return absent, past.complete


def _note_seen(record: JobRecord, standing: QueueView, began: float) -> None:
    stale = [
        each.token
        for each in standing.live
        if standing.rows.get(each.tag) and began - each.seen > _SEEN_EVERY_S
    ]
    if stale:
        record.saw(stale)
