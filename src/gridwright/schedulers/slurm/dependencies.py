"""Resolves dependencies of jobs in our own record: Slurm takes a job that it has forgotten for completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.errors import Problem
from gridwright.schedulers.dependency import Dependency, DependencyType, aftercorr_problems, parse_dependency
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.slurm.job_name import split_identifier
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import JobEnd, Submission

BY_TOKEN = "@"  # noqa: S105 - a mark, no password
"""What a dependency begins with on a job of the same call, which has no identifier yet: its token follows."""
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


def doom_sentence(doomed: str) -> str:
    """Why a job was cancelled, in words."""
    kind, _, job = doomed.rpartition(":")
    if kind == DependencyType.NOT_OK:
        return f"job {job}, after whose failure it was to start, completed"
    return f"job {job}, which it waited for, did not complete"


def by_tokens(request: JobRequest, tokens: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """What a request waits for, with the tokens of earlier requests of its call in place of their numbers.

    `tokens` are those of the requests before it.
    """
    after: list[str] = []
    problems: list[Problem] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            # `option_problems` has told it.
            continue
        number = found.earlier
        if number is None:
            after.append(str(found))
        elif number < len(tokens):
            after.append(str(Dependency(f"{BY_TOKEN}{tokens[number]}", found.type)))
        else:
            problems.append(found.not_earlier)
    return after, problems


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
    name = name_of(submission, element)
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
        dependencies.unsent = dependencies.unsent or submission.slurm_id is None
        number = f"{submission.slurm_id}" if element is None else f"{submission.slurm_id}_{element}"
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


def look_up(record: JobRecord, job: str) -> tuple[Submission | None, int | None]:
    """The submission that a dependency names, and the index where it names an element."""
    if job.startswith(BY_TOKEN):
        return record.by_token(job.removeprefix(BY_TOKEN)), None
    parts = split_identifier(job)
    return (None, None) if parts is None else (record.by_identifier(parts[0]), parts[1])


def name_of(submission: Submission, element: int | None) -> str:
    """What users call a job."""
    name = submission.identifier or submission.token
    return name if element is None else f"{name}_{element}"
