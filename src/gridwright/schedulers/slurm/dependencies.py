"""Resolves dependencies of jobs in our own record: Slurm takes a job that it has forgotten for completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.schedulers.job import JobState
from gridwright.schedulers.slurm.job_name import split_identifier
from gridwright.schedulers.slurm.record import JobRecord


@dataclass(frozen=True, slots=True)
class ResolvedDependencies:
    """What a request waits for, in Slurm's numbers."""

    after: tuple[str, ...] = ()
    doomed: str | None = None
    """A job that has ended without completing: the request is not to run."""
    unknown: tuple[str, ...] = ()
    unsent: bool = False
    """Whether one of them is not known to Slurm yet."""


def dependency(record: JobRecord, identifiers: Sequence[str]) -> ResolvedDependencies:
    """Look up what a request waits for.

    Jobs that completed are left out, and one that did not dooms the request: Slurm may have forgotten both,
    and takes a dependency on a job that it does not know for satisfied.
    """
    after: list[str] = []
    unknown: list[str] = []
    doomed: str | None = None
    unsent = False
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
        elif any(each not in ended for each in wanted):
            unsent = unsent or found.slurm_id is None
            after.append(f"{found.slurm_id}" if parts[1] is None else f"{found.slurm_id}_{parts[1]}")
    return ResolvedDependencies(tuple(after), doomed, tuple(unknown), unsent)
