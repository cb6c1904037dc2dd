"""Determines how a job has ended, from Slurm's queue, its accounting, or the job's own script.

Resolves dependencies of jobs in our own record: Slurm takes a job that it has forgotten for completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gridwright.errors import Problem
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import BY_TOKEN, JobEnd, Submission, doom_sentence, look_up
from gridwright.schedulers.batch.recorded import CANCELLED_BY_USER
from gridwright.schedulers.dependency import Dependency, DependencyType, aftercorr_problems, parse_dependency
from gridwright.schedulers.exit_reason import exit_reason
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_script import JobDirectories
from gridwright.schedulers.slurm.queue import QueueRow, decode_end
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.tools import job_state, reason
from gridwright.units import format_bytes

_WORDS = {
    DependencyType.OK: "afterok",
    DependencyType.ANY: "afterany",
    DependencyType.NOT_OK: "afternotok",
    DependencyType.EACH: "aftercorr",
}
"""As sbatch(1) has them under --dependency."""


@dataclass
class ResolvedDependencies:
    """What a request waits for, in Slurm's words."""

    after: list[str] = field(default_factory=list)
    """Such as afterok:17 and afterany:18_3."""
    doomed: str | None = None
    """What has ended otherwise than it had to, as the record keeps it: the request is not to run."""
    doomed_elements: set[int] = field(default_factory=set)
    """Elements of the request's array that are not to run."""
    problems: list[Problem] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Identifiers that nobody knows."""
    unsent: bool = False
    """Whether one of them is not known to Slurm yet."""


def doomed_sentence(doomed: str) -> str:
    """Why a job was cancelled, in words; `doomed` as ResolvedDependencies has it."""
    kind, _, job = doomed.rpartition(":")
    return doom_sentence(job, unneeded=kind == DependencyType.NOT_OK)


def resolve(
    record: JobRecord,
    request: JobRequest,
    numbers: Mapping[str, int] | None = None,
    arrays: Mapping[str, Sequence[int] | None] | None = None,
) -> ResolvedDependencies:
    """Look up what a request waits for.

    Jobs that ended as they had to are left out, and one that did not dooms the request: Slurm may have
    forgotten both, and takes a dependency on a job that it does not know for satisfied. `numbers` has Slurm's
    numbers of jobs that were submitted just now, by token, and `arrays` their indices.
    """
    dependencies = ResolvedDependencies()
    for text in request.after:
        each = parse_dependency(text)
        if isinstance(each, Problem):
            continue
        token = each.job.removeprefix(BY_TOKEN)
        if numbers is not None and each.job.startswith(BY_TOKEN) and token in numbers:
            if each.type is DependencyType.EACH:
                dependencies.problems += aftercorr_problems(
                    request.array, (arrays or {}).get(token), each.job
                )
            dependencies.after.append(f"{_WORDS[each.type]}:{numbers[token]}")
        else:
            _resolve(record, request, each, dependencies)
    return dependencies


def _resolve(
    record: JobRecord, request: JobRequest, dependency: Dependency, dependencies: ResolvedDependencies
) -> None:
    submission, element = look_up(record, dependency.job)
    if submission is None or (element is not None and element not in submission.elements):
        dependencies.unknown.append(dependency.job)
        return
    name = submission.name_of(element)
    requested = submission.elements if element is None else (element,)
    if dependency.type is DependencyType.EACH:
        array = submission.request.array if element is None else None
        if unlike := list(aftercorr_problems(request.array, array, name)):
            dependencies.problems += unlike
            return
        requested = tuple(request.array or ())
    ended = record.ended(submission.token)
    word = _judged(dependency.type, ended, requested, name, dependencies)
    if word is not None:
        dependencies.unsent = dependencies.unsent or submission.number is None
        number = f"{submission.number}" if element is None else f"{submission.number}_{element}"
        dependencies.after.append(f"{_WORDS[word]}:{number}")


def _judged(
    kind: DependencyType,
    ended: Mapping[int, JobEnd],
    requested: Sequence[int],
    name: str,
    dependencies: ResolvedDependencies,
) -> DependencyType | None:
    """What is still to be waited for; None where that is nothing, or nothing that helps."""
    failed = [each for each in requested if each in ended and ended[each].state is not JobState.COMPLETED]
    all_ended = all(each in ended for each in requested)
    if kind is DependencyType.EACH:
        dependencies.doomed_elements.update(failed)
        return None if all_ended else kind
    if kind is DependencyType.OK and failed:
        dependencies.doomed = dependencies.doomed or name
        return None
    if kind is DependencyType.NOT_OK:
        if failed:
            # That it fails is certain, and Slurm may have forgotten the element that did.
            return None if all_ended else DependencyType.ANY
        if all_ended:
            dependencies.doomed = dependencies.doomed or f"{kind}:{name}"
            return None
    return None if all_ended else kind


_BY_ITSELF = (JobState.COMPLETED, JobState.FAILED)
BY_DEPENDENCY = "a job that it waited for did not complete"
_UNTOLD = ("", "None", "NonZeroExitCode", "TimeLimit", "OutOfMemory", "(null)")
"""Reasons that say no more than the state."""


def ended_by_slurm(submission: Submission, element: int, row: QueueRow, cancelled: bool) -> JobEnd | None:
    """What became of a job by Slurm's queue, or its accounting; None where it has not ended by them."""
    state = job_state(row.words)
    if not state.state.final:
        return None
    has_run = row.node is not None
    return _ended(
        submission,
        element,
        state.state,
        status=(row.exit_status, row.signal) if has_run or row.accounted else (None, None),
        sentence=_sentence(submission, state.sentence, row.reason, state.state, cancelled),
        row=row,
        restarts=row.restarts,
    )


def ended_otherwise(submission: Submission, element: int, state: JobState, sentence: str) -> JobEnd:
    """What became of a job that Slurm does not know."""
    return _ended(submission, element, state, sentence=sentence)


def ended_by_script(
    directories: JobDirectories, submission: Submission, element: int, begun: Mapping[str, int]
) -> JobEnd | None:
    """What became of a job by its own script; None where that has not written it down.

    `begun` has the last run of each job: see JobDirectories.
    """
    run = last_run(submission.tag, element, begun)
    status = directories.run_status(run) if run is not None else None
    if run is None or status is None:
        return None
    return _ended(
        submission,
        element,
        JobState.COMPLETED if status == 0 else JobState.FAILED,
        status=decode_end(status, 0),
        ended=directories.run_ended(run),
        restarts=int(run.rpartition(".")[2]),
    )


def corrected(directories: JobDirectories, submission: Submission, end: JobEnd) -> JobEnd:
    """The end of a job whose node failed, as Slurm has it, and whose script wrote down that it had ended.

    A slurmctld that was killed comes back with jobs as running that have ended meanwhile, and does not find
    them on their nodes.
    """
    if end.state is not JobState.NODE_FAILED:
        return end
    run = f"{_job(submission.tag, end.element)}.{end.restarts - submission.interruptions}"
    status = directories.run_status(run)
    if status is None:
        return end
    exit_status, signal = decode_end(status, 0)
    return replace(
        end,
        state=JobState.COMPLETED if status == 0 else JobState.FAILED,
        exit_status=exit_status,
        signal=signal,
        reason=None if status == 0 else exit_reason(exit_status, signal),
        ended=directories.run_ended(run),
    )


def _job(tag: JobTag, element: int) -> str:
    return f"{tag}" if element == WHOLE else f"{tag}_{element}"


def last_run(tag: JobTag, element: int, begun: Mapping[str, int]) -> str | None:
    """The name of the file of the last run of a job; None where it has not begun."""
    job = _job(tag, element)
    return f"{job}.{begun[job]}" if job in begun else None


def write_ends(record: JobRecord, submissions: Sequence[Submission], ends: Sequence[JobEnd]) -> None:
    """Write down ends, and which of them may have left private directories behind."""
    if not ends:
        return
    of = {submission.token: submission.request for submission in submissions}
    sweep = [
        each
        for each in ends
        if may_leave_directories(each)
        and each.token in of
        and not of[each.token].keep
        and {"work", "util"} & of[each.token].libraries.keys()
    ]
    by_dependency = [each for each in ends if each.reason == BY_DEPENDENCY and each.token in of]
    record.end([each for each in ends if each not in by_dependency], sweep=sweep)
    named = []
    for end in by_dependency:
        # Which one is known now, also where it ended at the same time.
        waited_for = resolve(record, of[end.token])
        culprit = waited_for.doomed
        if culprit is None and end.element in waited_for.doomed_elements:
            culprit = f"{_array_waited_for(record, of[end.token])}_{end.element}"
        named.append(replace(end, reason=doomed_sentence(culprit)) if culprit else end)
    record.end(named, sweep=[])


def _array_waited_for(record: JobRecord, request: JobRequest) -> str:
    """The array whose elements those of a request wait for, by the name that users know."""
    for text in request.after:
        each = parse_dependency(text)
        if isinstance(each, Dependency) and each.type is DependencyType.EACH:
            submission, element = look_up(record, each.job)
            return submission.name_of(element) if submission is not None else each.job
    return ""


def may_leave_directories(ended: JobEnd) -> bool:
    """Whether its script may have been killed before it removed the private directories."""
    return ended.state not in _BY_ITSELF or ended.signal is not None


def _ended(
    submission: Submission,
    element: int,
    state: JobState,
    *,
    status: tuple[int | None, int | None] = (None, None),
    sentence: str | None = None,
    row: QueueRow | None = None,
    ended: float | None = None,
    restarts: int = 0,
) -> JobEnd:
    exit_status, signal = status
    if state is JobState.COMPLETED:
        exit_status, signal = 0, None
    elif state is JobState.NODE_FAILED or exit_status == 0:
        # Slurm has 0 for a job that was ended before its command was, too.
        exit_status = None
    return JobEnd(
        token=submission.token,
        element=element,
        state=state,
        exit_status=exit_status,
        signal=signal,
        reason=sentence or (exit_reason(exit_status, signal) if state is JobState.FAILED else None),
        node=row.node if row is not None else None,
        queue=(row.queue if row is not None else None) or submission.request.queue,
        # Slurm gives a job that was cancelled while it waited the time of that as its start.
        started=row.started if row is not None and row.node is not None else None,
        ended=row.ended if row is not None else ended,
        restarts=submission.interruptions + restarts,
        attempt=submission.attempt,
    )


def _sentence(
    submission: Submission, of_state: str, slurms: str, state: JobState, cancelled: bool
) -> str | None:
    if submission.doomed is not None:
        return doomed_sentence(submission.doomed)
    if state is JobState.OUT_OF_MEMORY and submission.request.memory_bytes is not None:
        return f"used more memory than the {format_bytes(submission.request.memory_bytes)} that it may use"
    if of_state:
        return of_state
    if state is JobState.CANCELLED:
        if cancelled:
            return CANCELLED_BY_USER
        by_dependency = slurms.startswith("Dependency") or (not slurms and submission.request.after)
        return BY_DEPENDENCY if by_dependency else "it was cancelled in Slurm"
    untold = state is not JobState.FAILED or slurms in _UNTOLD
    return None if untold else reason(slurms).sentence
