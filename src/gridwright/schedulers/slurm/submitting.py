"""Submits jobs with sbatch, and tries again without ever submitting one twice."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.cluster import Cluster
from gridwright.schedulers.slurm.job_script import exported, given_environment, script_arguments
from gridwright.schedulers.slurm.numbers import goes_back, use_up_numbers
from gridwright.schedulers.slurm.queue import MANY, by_tag, read_queue
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.submission import SbatchCall, parse_answer, sbatch_arguments
from gridwright.schedulers.slurm.tools import ANSWER_S, PATIENCE_S, ToolRefused
from gridwright.schedulers.slurm.translations import Refusal

LEASE_S = 2 * PATIENCE_S + 3 * ANSWER_S
"""How long a submission is left to the process that submits it: longer than that takes at worst."""

_FOR_NOW = ("not available", "busy", "DOWN", "drained", "temporarily")
"""What a message of `sbatch --test-only` has where a job would wait: for nodes that are down, or in use."""


def submit_request(
    access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall
) -> tuple[JobTag, int]:
    """Submit one job; its attempt and Slurm's number. Bounded by LEASE_S.

    Where it is not clear whether slurmctld has taken it, the queue is asked. A job that is not in there gets
    a fence, so that it does not begin should the request arrive late, and goes in as the next attempt. So
    does one with a number that was another's already: see numbers.
    Raises GridwrightError: INPUT where Slurm refuses it, ENVIRONMENT where nobody answers.
    """
    give_up = time.monotonic() + PATIENCE_S
    wait_s = 0.2
    stepped = False
    while True:
        try:
            number = _sbatch(access, record, cluster, call)
        except ToolRefused as refused:
            refusal = refused.refusal
        else:
            if stepped or not goes_back(record, number) or not _taken_back(access, call.tag, number):
                return call.tag, number
            use_up_numbers(access, record)
            stepped, refusal = True, Refusal("away", "slurmctld has lost jobs", "", "")
            call = _next_attempt(access, record, call, refusal)
            continue
        if refusal.kind not in ("away", "unclear"):
            raise access.tools.error(refusal, "sbatch")
        if refusal.kind == "unclear":
            rows = by_tag(read_queue(access.tools, MANY)).get(call.tag, [])
            if rows:
                return call.tag, rows[0].job_id
            call = _next_attempt(access, record, call, refusal)
        if time.monotonic() + wait_s > give_up:
            raise _deferred(access.tools.error(refusal, "sbatch"))
        time.sleep(wait_s)
        wait_s = min(2.0, wait_s * 2)


def _taken_back(access: SlurmAccess, tag: JobTag, number: int) -> bool:
    """Whether a job that got a number which was another's could be cancelled before it began."""
    access.directories.fence(tag)
    if any(job.partition("_")[0] == str(tag) for job in access.directories.runs_begun()):
        access.directories.lift_fence(tag)
        return False
    scancel(access, [str(number)])
    return True


def _next_attempt(access: SlurmAccess, record: JobRecord, call: SbatchCall, refusal: Refusal) -> SbatchCall:
    access.directories.fence(call.tag)
    tag = record.claim(call.tag, time.time() + LEASE_S)
    if tag is None:
        raise _deferred(access.tools.error(refusal, "sbatch"))
    return replace(call, tag=tag)


def _deferred(error: GridwrightError) -> GridwrightError:
    first = error.problems[0]
    return GridwrightError(
        Problem(
            what=f"{first.what}; the job is kept, and the next command of Gridwright hands it in",
            where=first.where,
            remedy=first.remedy,
        ),
        status=ExitStatus.ENVIRONMENT,
    )


def try_request(access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall) -> None:
    """Ask whether Slurm would take a job, and submit nothing; where nobody answers, that is told later.

    What it waits for is left out: it may not be there yet. Raises GridwrightError (INPUT) where it refuses.
    """
    alone = replace(call, after=())
    command, environment = _command(access, record, cluster, alone)
    try:
        access.tools.once([command[0], "--test-only", *command[1:]], stdin=exported(environment))
    except ToolRefused as refused:
        passes = any(each in refused.refusal.message for each in _FOR_NOW)
        if refused.refusal.kind == "input" and not passes:
            raise access.tools.error(refused.refusal, "sbatch") from None


def _sbatch(access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall) -> int:
    command, environment = _command(access, record, cluster, call)
    answer = access.tools.once(command, stdin=exported(environment))
    try:
        return parse_answer(answer.stdout)
    except (ValueError, IndexError):
        printed = answer.stdout.decode(errors="replace").strip()
        raise ToolRefused(Refusal("unclear", "sbatch printed no number of a job", "", printed)) from None


def _command(
    access: SlurmAccess, record: JobRecord, cluster: Cluster, call: SbatchCall
) -> tuple[list[str], Mapping[str, str]]:
    """The command line of sbatch, and the environment that it reads from its standard input."""
    request, scheduler = call.request, access.section
    environment = given_environment(request)
    known = record.by_token(call.tag.token)
    return [
        *sbatch_arguments(
            call,
            cluster=cluster,
            partition=request.queue or scheduler.partition,
            account=scheduler.account,
            logs=access.directories.logs,
            options=access.options,
        ),
        str(access.directories.script),
        *script_arguments(
            request,
            state=access.directories.base,
            tag=call.tag,
            identifier=(known.identifier or "") if known is not None else "",
            environment=environment,
        ),
    ], environment


def elements_of(elements: Sequence[int]) -> Sequence[int] | None:
    """Indices for sbatch; None where the job is no array."""
    return None if WHOLE in elements else elements
