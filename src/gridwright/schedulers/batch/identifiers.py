"""Finds jobs by what users call them, and what a job waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.schedulers.batch.record import Submission, SubmissionRecord
from gridwright.schedulers.dependency import Dependency, DependencyType, parse_dependency
from gridwright.schedulers.job import JobRequest, JobState

BY_TOKEN = "@"  # noqa: S105 - a mark, no password
"""What a dependency begins with on a job of the same call, which has no identifier yet: its token follows."""
_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    match = _IDENTIFIER.fullmatch(text)
    if match is None:
        return None
    return match[1], None if match[2] is None else int(match[2])


def elements_named(
    record: SubmissionRecord, identifiers: Collection[str], others: str
) -> list[tuple[Submission, int]]:
    """The jobs of identifiers, in order, each once; `others`: see `unknown_job`.

    Raises GridwrightError (INPUT) with every unknown one.
    """
    found: list[tuple[Submission, int]] = []
    problems: list[Problem] = []
    for identifier in identifiers:
        submission, element = look_up(record, identifier)
        if submission is None:
            problems.append(unknown_job(record, identifier, others))
        elif element is None:
            found += [(submission, each) for each in submission.elements]
        elif element in submission.elements:
            found.append((submission, element))
        else:
            what = f"job {submission.identifier} has no element {element}"
            problems.append(Problem(what=what, remedy=f"see gridwright jobs {submission.identifier}"))
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    unique = {(submission.token, index): (submission, index) for submission, index in found}
    return list(unique.values())


def unknown_job(record: SubmissionRecord, identifier: str, others: str) -> Problem:
    """That there is no such job, with the nearest that there is; `others` are those that no record has."""
    near = nearest(identifier, record.identifiers())
    remedy = f"did you mean {near}?" if near else f"gridwright jobs shows all; {others} are not in it"
    return Problem(what=f"there is no job {identifier}", remedy=remedy)


def doom_sentence(job: str, *, unneeded: bool = False) -> str:
    """Why a job was cancelled that waited for another one in vain; `unneeded`: that should have failed."""
    if unneeded:
        return f"job {job}, after whose failure it was to start, completed"
    return f"job {job}, which it waited for, did not complete"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The jobs that one job waits for."""

    submission: Submission
    elements: tuple[int, ...]
    type: DependencyType

    @property
    def identifier(self) -> str:
        """What users call it."""
        return self.submission.name_of(self.elements[0] if len(self.elements) == 1 else None)


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """What a request waits for."""

    on: tuple[Predecessors, ...] = ()
    """Those that have not ended as they should, or not yet."""
    unknown: tuple[str, ...] = ()


def waited_for(record: SubmissionRecord, request: JobRequest) -> WaitedFor:
    """Look up what a request waits for; jobs that ended as they should are left out."""
    on: list[Predecessors] = []
    unknown: list[str] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            continue
        submission, index = look_up(record, found.job)
        if submission is None or (index is not None and index not in submission.elements):
            unknown.append(found.job)
            continue
        elements = submission.elements if index is None else (index,)
        ended = record.ended(submission.token)
        if not _settled(
            found.type, [ended[element].state for element in elements if element in ended], len(elements)
        ):
            on.append(Predecessors(submission, elements, found.type))
    return WaitedFor(tuple(on), tuple(unknown))


def _settled(type_: DependencyType, states: Sequence[JobState], count: int) -> bool:
    if len(states) < count:
        return False
    completed = all(state is JobState.COMPLETED for state in states)
    return type_ is DependencyType.ANY or completed != (type_ is DependencyType.NOT_OK)


def look_up(record: SubmissionRecord, name: str) -> tuple[Submission | None, int | None]:
    """The submission of a name, and the index where it names an element.

    It is an identifier, or `@TOKEN` where it was submitted together with the one that waits.
    """
    if name.startswith(BY_TOKEN):
        return record.by_token(name.removeprefix(BY_TOKEN)), None
    parts = split_identifier(name)
    return (record.by_identifier(parts[0]), parts[1]) if parts else (None, None)


def by_tokens(request: JobRequest, tokens: Sequence[str]) -> tuple[JobRequest, list[Problem]]:
    """The request with the tokens of earlier requests of its call in place of their numbers.

    `tokens` are those of the requests before it. What cannot be read is left out: `option_problems` has it.
    """
    after: list[str] = []
    problems: list[Problem] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            continue
        number = found.earlier
        if number is None:
            after.append(str(found))
        elif number < len(tokens):
            after.append(str(Dependency(f"{BY_TOKEN}{tokens[number]}", found.type)))
        else:
            problems.append(found.not_earlier)
    return replace(request, after=after), problems


def states_of(record: SubmissionRecord, request: JobRequest) -> list[tuple[str, JobState | None, bool]]:
    """The jobs that a request waits for: name, state (None: not all have ended), and whether that is met."""
    found = []
    open_ = {(each.submission.token, each.type) for each in waited_for(record, request).on}
    for text in request.after:
        parsed = parse_dependency(text)
        submission, index = (None, None) if isinstance(parsed, Problem) else look_up(record, parsed.job)
        if submission is None or isinstance(parsed, Problem):
            continue
        ended = record.ended(submission.token)
        elements = submission.elements if index is None else (index,)
        states = [ended[element].state for element in elements if element in ended]
        bad = [each for each in states if each is not JobState.COMPLETED]
        state = None if len(states) < len(elements) else bad[0] if bad else JobState.COMPLETED
        name = Predecessors(submission, elements, parsed.type).identifier
        met = (submission.token, parsed.type) not in open_
        found.append((str(Dependency(name, parsed.type)), state, met))
    return found
