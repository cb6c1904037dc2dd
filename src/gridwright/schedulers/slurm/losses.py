"""Handles jobs that Slurm no longer knows: forgotten, or lost with a slurmctld that was killed.

- One that never began is submitted again. Before that a fence is put up, which the script of the lost
  attempt looks at: it cannot begin any more.
- One that had begun (the file of its run is there) goes on. slurmd kills it when it registers with the new
  slurmctld, unless it ends before. Its script writes down how. Where nothing is written by then, it starts
  again if its request says so, and has failed with its node if not.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.job import JobState
from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.cluster import Cluster, read_boot_time, read_cluster
from gridwright.schedulers.slurm.dependencies import resolve
from gridwright.schedulers.slurm.ends import (
    BY_DEPENDENCY,
    ended_by_script,
    ended_otherwise,
    last_run,
    write_ends,
)
from gridwright.schedulers.slurm.numbers import use_up_numbers
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import JobEnd, Submission
from gridwright.schedulers.slurm.submission import SbatchCall
from gridwright.schedulers.slurm.submitting import LEASE_S, elements_of, submit_request

SKEW_S = 5.0
"""Clocks of the head node and of this machine may differ by so much."""


@dataclass(frozen=True, slots=True)
class MissingJobs:
    """Jobs of one submission that neither the queue nor the accounting knows."""

    submission: Submission
    elements: tuple[int, ...]
    alone: bool
    """Whether the queue knows none of the submission's jobs."""
    refused: bool = False
    """Whether the queue does know them, and a node refused them: see collisions."""


def settle_missing(
    access: SlurmAccess, record: JobRecord, absent: Sequence[MissingJobs], *, complete: bool
) -> None:
    """End what has ended, and submit again what was lost; `complete`: see AccountingAnswer.

    Raises GridwrightError (ENVIRONMENT) where nobody answers.
    """
    cluster = read_cluster(access.tools, record)
    boot = read_boot_time(access.tools)
    age = seconds(cluster.config, "MinJobAge", 300.0)
    now = time.time()
    lost = [each for each in absent if is_lost(each, complete, boot, age, now)]
    for each in lost:
        # First the fence, then the look at the runs: a script that begins meanwhile sees it.
        access.directories.fence(each.submission.tag)
    begun = access.directories.runs_begun()
    for each in absent:
        if each not in lost:
            ends = _forgotten(access, record, each, begun, sure=is_forgotten(each, age, now))
            write_ends(record, [each.submission], ends)
    if any(each.submission.slurm_id is not None and each.submission.orphaned_until is None for each in lost):
        use_up_numbers(access, record)
    until = (boot or now) + orphan_life_s(cluster)
    for each in lost:
        if elements := _settled(access, record, each, begun, until, now):
            _again(access, record, cluster, each, begun, elements)


def note_orphans(access: SlurmAccess, record: JobRecord, tokens: Collection[str]) -> None:
    """Write down that jobs were refused because they run: Slurm tells that only for a while."""
    until: float | None = None
    for token in tokens:
        submission = record.by_token(token)
        if submission is not None and submission.live and submission.orphaned_until is None:
            if until is None:
                cluster = read_cluster(access.tools, record)
                until = (read_boot_time(access.tools) or time.time()) + orphan_life_s(cluster)
            record.orphaned(token, until)


def is_lost(each: MissingJobs, complete: bool, boot: float | None, min_job_age_s: float, now: float) -> bool:
    """Whether Slurm lost a submission with its controller, or never had it.

    Slurm keeps an ended job for MinJobAge (0: always), so one that it knew more recently than that and does
    not know now was lost. Later than that it may have ended; with a complete accounting it would be in there.
    """
    submission = each.submission
    if each.refused:
        return True
    if not each.alone:
        return False
    if submission.slurm_id is None or submission.orphaned_until is not None:
        return True
    if min_job_age_s == 0 or now - submission.seen < min_job_age_s - SKEW_S:
        return True
    return complete and boot is not None and boot > submission.seen - SKEW_S


def is_forgotten(each: MissingJobs, min_job_age_s: float, now: float) -> bool:
    """Whether a job that was not lost must have ended: Slurm has had the time to forget it."""
    return now - each.submission.seen > max(min_job_age_s, 60.0)


def orphan_life_s(cluster: Cluster) -> float:
    """The longest that a job runs which slurmctld does not know, in seconds after the start of slurmctld.

    It asks nodes to register within a third of SlurmdTimeout (slurm.conf(5)), and kills what it does not
    know.
    """
    registers = seconds(cluster.config, "SlurmdTimeout", 300.0) / 3
    return registers + 2 * seconds(cluster.config, "MessageTimeout", 10.0) + SKEW_S


def _forgotten(
    access: SlurmAccess, record: JobRecord, each: MissingJobs, begun: Mapping[str, int], *, sure: bool
) -> list[JobEnd]:
    """Ends of jobs that were not lost; `sure`: see is_forgotten.

    Of an element that is cancelled while it waits Slurm keeps nothing at all, as long as others of its array
    are there (seen with 22.05).
    """
    ends = []
    cancelled = record.cancelled(each.submission.token)
    doomed = resolve(record, each.submission.request).doomed_elements
    for element in each.elements:
        if end := ended_by_script(access.directories, each.submission, element, begun):
            ends.append(end)
        elif element in doomed:
            ends.append(ended_otherwise(each.submission, element, JobState.CANCELLED, BY_DEPENDENCY))
        elif element in cancelled:
            ends.append(
                ended_otherwise(each.submission, element, JobState.CANCELLED, "its user cancelled it")
            )
        elif last_run(each.submission.tag, element, begun) is None:
            if sure or not each.alone:
                sentence = "it was cancelled in Slurm before it began"
                ends.append(ended_otherwise(each.submission, element, JobState.CANCELLED, sentence))
        elif sure:
            sentence = "it was killed, and Slurm no longer knows why: it keeps no accounting of it"
            ends.append(ended_otherwise(each.submission, element, JobState.FAILED, sentence))
    return ends


def _settled(
    access: SlurmAccess,
    record: JobRecord,
    each: MissingJobs,
    begun: Mapping[str, int],
    until: float,
    now: float,
) -> list[int]:
    """Write down what has ended of a lost submission; elements to be submitted, none while orphans run."""
    submission = each.submission
    cancelled = record.cancelled(submission.token)
    ends: list[JobEnd] = []
    orphans: list[int] = []
    elements: list[int] = []
    for element in each.elements:
        if end := ended_by_script(access.directories, submission, element, begun):
            ends.append(end)
        elif element in cancelled:
            ends.append(ended_otherwise(submission, element, JobState.CANCELLED, "its user cancelled it"))
        elif last_run(submission.tag, element, begun) is not None:
            orphans.append(element)
        else:
            elements.append(element)
    limit = submission.orphaned_until or until
    if orphans and now < limit:
        if submission.orphaned_until is None:
            record.orphaned(submission.token, limit)
        write_ends(record, [submission], ends)
        return []
    if submission.request.restart:
        elements += orphans
    else:
        sentence = "slurmctld was killed before it saved this job, and Slurm ended it on its node"
        ends += [ended_otherwise(submission, each, JobState.NODE_FAILED, sentence) for each in orphans]
    write_ends(record, [submission], ends)
    return elements


def _again(
    access: SlurmAccess,
    record: JobRecord,
    cluster: Cluster,
    each: MissingJobs,
    begun: Mapping[str, int],
    elements: Sequence[int],
) -> None:
    """Submit again the jobs of a submission that Slurm lost."""
    submission = each.submission
    waits_for = resolve(record, submission.request)
    if waits_for.unsent:
        return
    interrupted = any(last_run(submission.tag, element, begun) is not None for element in elements)
    tag = record.claim(submission.tag, time.time() + LEASE_S, interrupted=interrupted)
    if tag is None:
        return
    call = SbatchCall(
        request=submission.request,
        tag=tag,
        elements=elements_of(elements),
        after=waits_for.after,
        doomed=waits_for.doomed is not None,
        doomed_elements=sorted(waits_for.doomed_elements & set(elements)),
    )
    try:
        tag, number = submit_request(access, record, cluster, call)
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            record.released([tag.token])
            raise
        sentence = f"slurmctld had lost it and refuses it now: {error.problems[0].what}"
        ends = [ended_otherwise(submission, element, JobState.CANCELLED, sentence) for element in elements]
        write_ends(record, [submission], ends)
        return
    record.accepted([(tag, number)])
    scancel(access, call.doomed_jobs(number))


def seconds(config: Mapping[str, str], key: str, default: float) -> float:
    """A time in Slurm's configuration, such as `300 sec`."""
    first = config.get(key, "").split(" ", maxsplit=1)[0]
    return float(first) if first.isdigit() else default
