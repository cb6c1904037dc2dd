"""Handing jobs in: sbatch, tried again without ever having a job twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.grid.job import JobState
from gridwright.grid.slurm.cluster import Cluster
from gridwright.grid.slurm.job_name import Tag, split_identifier
from gridwright.grid.slurm.job_script import exported, given_environment, script_arguments
from gridwright.grid.slurm.places import Places
from gridwright.grid.slurm.queue import MANY, by_tag, read_queue
from gridwright.grid.slurm.record import Record
from gridwright.grid.slurm.record_rows import WHOLE
from gridwright.grid.slurm.submission import Handing, parse_answer, sbatch_arguments
from gridwright.grid.slurm.tools import ANSWER_S, PATIENCE_S, Refused, Tools
from gridwright.grid.slurm.words import Refusal
from gridwright.spec.model import GridSpec

_AT_ONCE = 500
LEASE_S = 2 * PATIENCE_S + 3 * ANSWER_S
"""How long a submission is left to the process that hands it in: longer than that takes at worst."""


@dataclass(frozen=True, slots=True)
class Site:
    """What every call of sbatch needs."""

    spec: GridSpec
    tools: Tools
    places: Places
    options: Sequence[str]
    """Those of the spec, one a word."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a request waits for, in Slurm's numbers."""

    after: tuple[str, ...] = ()
    doomed: str | None = None
    """A job that has ended without completing: the request is not to run."""
    unknown: tuple[str, ...] = ()
    unsent: bool = False
    """Whether one of them is not known to Slurm yet."""


def dependency(record: Record, identifiers: Sequence[str]) -> Dependency:
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
    return Dependency(tuple(after), doomed, tuple(unknown), unsent)


def hand_in(site: Site, record: Record, cluster: Cluster, handing: Handing) -> tuple[Tag, int]:
    """Hand in one job; its attempt and Slurm's number. Bounded by LEASE_S.

    Where it is not clear whether slurmctld has taken it, the queue is asked. A job that is not in there gets
    a fence, so that it does not begin should the request arrive late, and goes in as the next attempt.
    Raises GridwrightError: INPUT where Slurm refuses it, ENVIRONMENT where nobody answers.
    """
    give_up = time.monotonic() + PATIENCE_S
    wait_s = 0.2
    while True:
        try:
            return handing.tag, _sbatch(site, record, cluster, handing)
        except Refused as refused:
            refusal = refused.refusal
        if refusal.kind not in ("away", "unclear"):
            raise site.tools.error(refusal, "sbatch")
        if refusal.kind == "unclear":
            rows = by_tag(read_queue(site.tools, MANY)).get(handing.tag, [])
            if rows:
                return handing.tag, rows[0].job_id
            handing = _next_attempt(site, record, handing, refusal)
        if time.monotonic() + wait_s > give_up:
            raise _kept(site.tools.error(refusal, "sbatch"))
        time.sleep(wait_s)
        wait_s = min(2.0, wait_s * 2)


def _next_attempt(site: Site, record: Record, handing: Handing, refusal: Refusal) -> Handing:
    site.places.fence(handing.tag)
    tag = record.claim(handing.tag, time.time() + LEASE_S)
    if tag is None:
        raise _kept(site.tools.error(refusal, "sbatch"))
    return replace(handing, tag=tag)


def _kept(error: GridwrightError) -> GridwrightError:
    first = error.problems[0]
    return GridwrightError(
        Problem(
            what=f"{first.what}; the job is kept, and the next command of Gridwright hands it in",
            where=first.where,
            remedy=first.remedy,
        ),
        status=ExitStatus.ENVIRONMENT,
    )


def _sbatch(site: Site, record: Record, cluster: Cluster, handing: Handing) -> int:
    request, scheduler = handing.request, site.spec.scheduler
    environment = given_environment(request)
    known = record.by_token(handing.tag.token)
    command = [
        *sbatch_arguments(
            handing,
            cluster=cluster,
            partition=request.queue or scheduler.partition,
            account=scheduler.account,
            logs=site.places.logs,
            options=site.options,
        ),
        str(site.places.script),
        *script_arguments(
            request,
            state=site.places.base,
            tag=handing.tag,
            identifier=(known.identifier or "") if known is not None else "",
            environment=environment,
        ),
    ]
    answer = site.tools.once(command, stdin=exported(environment))
    try:
        return parse_answer(answer.stdout)
    except (ValueError, IndexError):
        printed = answer.stdout.decode(errors="replace").strip()
        raise Refused(Refusal("unclear", "sbatch printed no number of a job", "", printed)) from None


def elements_of(elements: Sequence[int]) -> Sequence[int] | None:
    """Indices for sbatch; None where the job is no array."""
    return None if WHOLE in elements else elements


def scancel(site: Site, targets: Sequence[str]) -> None:
    """Cancel jobs by Slurm's numbers; those that have ended stay so. Raises GridwrightError (ENVIRONMENT)."""
    for first in range(0, len(targets), _AT_ONCE):
        command = ["scancel", "-Q", *targets[first : first + _AT_ONCE]]
        try:
            site.tools.query(command)
        except GridwrightError as error:
            # It fails where one of the jobs has ended meanwhile.
            if error.status is not ExitStatus.INPUT:
                raise
