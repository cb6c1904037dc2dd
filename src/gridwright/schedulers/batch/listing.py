"""Lists jobs as users see them, from our record and the queue of the batch system."""

from __future__ import annotations

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.directories import BatchDirectories
from gridwright.schedulers.batch.reconciliation import BatchQueueView
from gridwright.schedulers.batch.record import BatchJobEnd, BatchRecord, BatchSubmission
from gridwright.schedulers.batch.system import BatchRow, job_label
from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.output_paths import filled
from gridwright.state_parts import this_user


def jobs_of(
    submission: BatchSubmission,
    record: BatchRecord,
    view: BatchQueueView,
    directories: BatchDirectories,
    system: str,
) -> dict[int, Job]:
    """All jobs of a submission, by element."""
    ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
    rows = view.rows.get(submission.tag, {})
    log = str(directories.log(submission.request, submission.tag))
    return {
        element: _job(
            submission,
            element,
            end=ended.get(element),
            row=rows.get(WHOLE if element == WHOLE else place),
            cancelled=element in cancelled,
            log=_output(submission, element)
            or (f"{log}.log" if element == WHOLE else f"{log}_{element}.log"),
            system=system,
        )
        for place, element in enumerate(submission.elements, 1)
    }


def _output(submission: BatchSubmission, element: int) -> str | None:
    """The file that its standard output goes to; None where that is its log."""
    request = submission.request
    if request.options.stdout is None:
        return None
    job = f"{submission.number}" if element == WHOLE else f"{submission.number}_{element}"
    return filled(request.options.stdout, {"job": job, "index": f"{element}", "name": job_label(request)})


def _job(
    submission: BatchSubmission,
    element: int,
    *,
    end: BatchJobEnd | None,
    row: BatchRow | None,
    cancelled: bool,
    log: str,
    system: str,
) -> Job:
    request = submission.request
    state, sentence = JobState.WAITING, f"it is being handed in to {system}"
    if end is not None:
        state, sentence = end.state, end.reason or ""
    elif row is not None:
        state, sentence = row.state, row.reason or ""
        if cancelled:
            sentence = "it is being cancelled"
    elif submission.number is not None:
        state, sentence = (
            JobState.RUNNING,
            f"it has left the queue of {system}, which has yet to tell how it ended",
        )
    return Job(
        id=f"{submission.identifier}" if element == WHOLE else f"{submission.identifier}_{element}",
        name=job_label(request),
        state=state,
        queue=(end.queue if end is not None else row.queue if row is not None else None) or request.queue,
        user=this_user(),
        cores=request.cores,
        memory_bytes=request.memory_bytes or submission.memory,
        exit_status=end.exit_status if end is not None else None,
        signal=end.signal if end is not None else None,
        reason=sentence or None,
        node=end.node if end is not None else row.node if row is not None else None,
        submitted=submission.submitted,
        started=end.started if end is not None else row.started if row is not None else None,
        ended=end.ended if end is not None else None,
        restarts=end.restarts if end is not None else 0,
        log=log,
        flow=request.options.flow,
    )
