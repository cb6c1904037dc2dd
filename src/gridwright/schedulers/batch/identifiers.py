"""Finds jobs by what users call them, and what a job waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import BatchRecord, BatchSubmission
from gridwright.schedulers.dependency import DependencyType, parse_dependency
from gridwright.schedulers.job import JobRequest, JobState

_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    match = _IDENTIFIER.fullmatch(text)
    if match is None:
        return None
    return match[1], None if match[2] is None else int(match[2])


def elements_named(record: BatchRecord, identifiers: Collection[str]) -> list[tuple[BatchSubmission, int]]:
    """The jobs of identifiers, in order. Raises GridwrightError (INPUT) with every unknown one."""
    found: list[tuple[BatchSubmission, int]] = []
    problems: list[Problem] = []
    for identifier in identifiers:
        parts = split_identifier(identifier)
        submission = record.by_identifier(parts[0]) if parts else None
        if parts is None or submission is None:
            problems.append(unknown_job(record, identifier))
        elif parts[1] is None:
            found += [(submission, index) for index in submission.elements]
        elif parts[1] in submission.elements:
            found.append((submission, parts[1]))
        else:
            what = f"job {parts[0]} has no element {parts[1]}"
            problems.append(Problem(what=what, remedy=f"see gridwright jobs {parts[0]}"))
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    unique = {(submission.token, index): (submission, index) for submission, index in found}
    return list(unique.values())


def unknown_job(record: BatchRecord, identifier: str) -> Problem:
    """That there is no such job, with the nearest that there is."""
    near = nearest(identifier, record.identifiers())
    others = "gridwright jobs shows all; those of others, and those not submitted by it, are not in it"
    return Problem(what=f"there is no job {identifier}", remedy=f"did you mean {near}?" if near else others)


def doom_sentence(job: str, *, unneeded: bool = False) -> str:
    """Why a job was cancelled that waited for another one in vain; `unneeded`: that should have failed."""
    if unneeded:
        return f"job {job}, after whose failure it was to start, completed"
    return f"job {job}, which it waited for, did not complete"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The jobs that one job waits for."""

    submission: BatchSubmission
    elements: tuple[int, ...]
    type: DependencyType

    @property
    def identifier(self) -> str:
        """What users call it."""
        name = self.submission.identifier or ""
        return name if len(self.elements) != 1 or WHOLE in self.elements else f"{name}_{self.elements[0]}"


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """What a request waits for."""

    on: tuple[Predecessors, ...] = ()
    """Those that have not ended as they should, or not yet."""
    unknown: tuple[str, ...] = ()


def waited_for(record: BatchRecord, request: JobRequest) -> WaitedFor:
    """Look up what a request waits for; jobs that ended as they should are left out."""
    on: list[Predecessors] = []
    unknown: list[str] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            continue
        submission, index = _named(record, found.job)
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


def _named(record: BatchRecord, name: str) -> tuple[BatchSubmission | None, int | None]:
    """By identifier, or by `@TOKEN` where it was submitted together with the one that waits."""
    if name.startswith("@"):
        return record.by_token(name[1:]), None
    parts = split_identifier(name)
    return (record.by_identifier(parts[0]), parts[1]) if parts else (None, None)


def by_tokens(request: JobRequest, tokens: Sequence[str]) -> JobRequest:
    """The request with the tokens of earlier requests of the same call in place of their numbers."""
    after = []
    for text in request.after:
        found = parse_dependency(text)
        if not isinstance(found, Problem) and found.earlier is not None and found.earlier < len(tokens):
            text = f"{found.type}:@{tokens[found.earlier]}"  # noqa: PLW2901
        after.append(text)
    return replace(request, after=after)


def states_of(record: BatchRecord, request: JobRequest) -> list[tuple[str, JobState | None, bool]]:
    """The jobs that a request waits for: name, state (None: not all have ended), and whether that is met."""
    found = []
    open_ = {(each.submission.token, each.type) for each in waited_for(record, request).on}
    for text in request.after:
        parsed = parse_dependency(text)
        submission, index = (None, None) if isinstance(parsed, Problem) else _named(record, parsed.job)
        if submission is None or isinstance(parsed, Problem):
            continue
        ended = record.ended(submission.token)
        elements = submission.elements if index is None else (index,)
        states = [ended[element].state for element in elements if element in ended]
        bad = [each for each in states if each is not JobState.COMPLETED]
        state = None if len(states) < len(elements) else bad[0] if bad else JobState.COMPLETED
        name = Predecessors(submission, elements, parsed.type).identifier
        met = (submission.token, parsed.type) not in open_
        found.append((name if parsed.type is DependencyType.OK else f"{parsed.type}:{name}", state, met))
    return found
