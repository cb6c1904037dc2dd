"""Finds jobs by what users call them, and what a job waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.schedulers.batch.record import BatchRecord, Submission
from gridwright.schedulers.job import JobState

_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    found = _IDENTIFIER.fullmatch(text)
    if found is None:
        return None
    return found[1], None if found[2] is None else int(found[2])


def elements_named(record: BatchRecord, identifiers: Collection[str]) -> list[tuple[Submission, int]]:
    """The jobs of identifiers, in order. Raises GridwrightError (INPUT) with every unknown one."""
    found: list[tuple[Submission, int]] = []
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
    others = "gridwright jobs shows all; those of others, and those not handed in by it, are not in it"
    return Problem(what=f"there is no job {identifier}", remedy=f"did you mean {near}?" if near else others)


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a request waits for."""

    on: tuple[tuple[str, Submission, tuple[int, ...]], ...] = ()
    """Identifier, submission and elements of those that have not completed yet."""
    doomed: str | None = None
    """A job that has ended without completing: the request is not to run."""
    unknown: tuple[str, ...] = ()


def dependency(record: BatchRecord, identifiers: Sequence[str]) -> Dependency:
    """Look up what a request waits for; jobs that completed are left out."""
    on: list[tuple[str, Submission, tuple[int, ...]]] = []
    unknown: list[str] = []
    doomed: str | None = None
    for identifier in identifiers:
        parts = split_identifier(identifier)
        found = record.by_identifier(parts[0]) if parts else None
        if parts is None or found is None or (parts[1] is not None and parts[1] not in found.elements):
            unknown.append(identifier)
            continue
        ended = record.ended(found.token)
        wanted = found.elements if parts[1] is None else (parts[1],)
        if any(each in ended and ended[each].state is not JobState.COMPLETED for each in wanted):
            doomed = doomed or identifier
        if not all(each in ended and ended[each].state is JobState.COMPLETED for each in wanted):
            on.append((identifier, found, wanted))
    return Dependency(tuple(on), doomed, tuple(unknown))


def state_of(record: BatchRecord, identifier: str) -> JobState | None:
    """The end of a job, or of an array the worst; None while not all have ended."""
    parts = split_identifier(identifier)
    submission = record.by_identifier(parts[0]) if parts else None
    if parts is None or submission is None:
        return None
    ended = record.ended(submission.token)
    wanted = submission.elements if parts[1] is None else (parts[1],)
    states = [ended[each].state for each in wanted if each in ended]
    bad = [each for each in states if each is not JobState.COMPLETED]
    if bad:
        return bad[0]
    return JobState.COMPLETED if len(states) == len(wanted) else None
