"""Resolves dependencies of jobs in our own record: Slurm takes a job that it has forgotten for completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.errors import Problem
from gridwright.schedulers.batch.identifiers import BY_TOKEN, doom_sentence, look_up
from gridwright.schedulers.batch.record import JobEnd
from gridwright.schedulers.dependency import Dependency, DependencyType, aftercorr_problems, parse_dependency
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.slurm.record import JobRecord

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
