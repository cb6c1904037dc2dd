"""How a job has ended, out of a row of Slurm's queue or of its accounting."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gridwright.grid.job import JobState
from gridwright.grid.slurm.accounting import PastRow
from gridwright.grid.slurm.job_name import Tag
from gridwright.grid.slurm.places import Places
from gridwright.grid.slurm.queue_row import QueueRow, decode_end
from gridwright.grid.slurm.record import WHOLE, Ended, Record, Submission
from gridwright.grid.slurm.words import job_state, reason

_BY_ITSELF = (JobState.COMPLETED, JobState.FAILED)
_UNTOLD = ("", "None", "NonZeroExitCode", "TimeLimit", "OutOfMemory", "(null)")
"""Reasons that say no more than the state."""


def ended_by_queue(submission: Submission, element: int, row: QueueRow, cancelled: bool) -> Ended | None:
    """What became of a job in the queue; None where it has not ended."""
    state = job_state(row.words)
    if not state.state.final:
        return None
    return _ended(
        submission,
        element,
        state.state,
        status=(row.exit_status, row.signal) if row.node is not None else (None, None),
        sentence=_sentence(submission, state.sentence, row.reason, state.state, cancelled),
        # Slurm gives a job that was cancelled while it waited the time of that as its start.
        where=(row.node, row.started if row.node is not None else None, row.ended),
        restarts=row.restarts,
    )


def ended_by_accounting(submission: Submission, element: int, row: PastRow, cancelled: bool) -> Ended | None:
    """What became of a job that the queue has forgotten; None where it has not ended by the accounting."""
    state = job_state((row.word,))
    if not state.state.final:
        return None
    return _ended(
        submission,
        element,
        state.state,
        status=(row.exit_status, row.signal),
        sentence=_sentence(submission, state.sentence, "", state.state, cancelled),
        where=(row.node, row.started if row.node is not None else None, row.ended),
        restarts=0,
    )


def ended_otherwise(submission: Submission, element: int, state: JobState, sentence: str) -> Ended:
    """What became of a job that Slurm does not know."""
    return _ended(
        submission,
        element,
        state,
        status=(None, None),
        sentence=sentence,
        where=(None, None, None),
        restarts=0,
    )


def ended_by_script(
    places: Places, submission: Submission, element: int, written: Collection[str]
) -> Ended | None:
    """What became of a job by its own script; None where that has not written it down.

    `written` are the names of such files. Of several runs, the last counts.
    """
    prefix = end_prefix(submission.tag, element)
    runs = [int(name.removeprefix(prefix)) for name in written if name.startswith(prefix)]
    status = places.read_end(f"{prefix}{max(runs)}") if runs else None
    if status is None:
        return None
    exit_status, signal = decode_end(status, 0)
    return _ended(
        submission,
        element,
        JobState.COMPLETED if status == 0 else JobState.FAILED,
        status=(exit_status, signal),
        sentence=None,
        where=(None, None, places.end_time(f"{prefix}{max(runs)}")),
        restarts=max(runs),
    )


def end_prefix(tag: Tag, element: int) -> str:
    """How the names of the files begin that say how a job's script ended; the number of the run follows."""
    return f"{tag}." if element == WHOLE else f"{tag}_{element}."


def write_ends(
    places: Places, record: Record, submissions: Sequence[Submission], ends: Sequence[Ended]
) -> None:
    """Write down ends, and which of them may have left private directories behind."""
    if not ends:
        return
    of = {each.token: each.request for each in submissions}
    sweep = [
        each
        for each in ends
        if may_leave_directories(each)
        and each.token in of
        and not of[each.token].keep
        and {"work", "util"} & of[each.token].libraries.keys()
    ]
    record.end(ends, sweep=sweep)
    for each in ends:
        places.forget_ends(end_prefix(Tag(each.token, each.attempt), each.element), each.restarts)


def may_leave_directories(ended: Ended) -> bool:
    """Whether its script may have been killed before it removed the private directories."""
    return ended.state not in _BY_ITSELF or ended.signal is not None


def _ended(
    submission: Submission,
    element: int,
    state: JobState,
    *,
    status: tuple[int | None, int | None],
    sentence: str | None,
    where: tuple[str | None, float | None, float | None],
    restarts: int,
) -> Ended:
    exit_status, signal = status
    if state is JobState.COMPLETED:
        exit_status, signal = 0, None
    elif state is JobState.NODE_FAILED or exit_status == 0:
        # Slurm has 0 for a job that was ended before its command was, too.
        exit_status = None
    return Ended(
        token=submission.token,
        element=element,
        state=state,
        exit_status=exit_status,
        signal=signal,
        reason=sentence,
        node=where[0],
        started=where[1],
        ended=where[2],
        restarts=submission.interruptions + restarts,
        attempt=submission.attempt,
    )


def _sentence(
    submission: Submission, of_state: str, slurms: str, state: JobState, cancelled: bool
) -> str | None:
    if submission.doomed is not None:
        return f"job {submission.doomed}, which it waited for, did not complete"
    if of_state:
        return of_state
    if state is JobState.CANCELLED:
        if cancelled:
            return "its user cancelled it"
        by_dependency = slurms.startswith("Dependency") or (not slurms and submission.request.after)
        return "a job that it waited for did not complete" if by_dependency else "it was cancelled in Slurm"
    untold = state is not JobState.FAILED or slurms in _UNTOLD
    return None if untold else reason(slurms).sentence
