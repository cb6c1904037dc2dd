"""Removes the private directories of jobs that were killed before their script could remove them."""

from __future__ import annotations

from gridwright.errors import GridwrightError
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.private_sweep import NO_LIBRARY, SWEEP_AT_ONCE, SWEEP_TIMEOUT_S, sweep_command
from gridwright.schedulers.slurm.access import SlurmAccess
from gridwright.schedulers.slurm.job_script import private_prefix
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE, Submission


def clean_up(access: SlurmAccess, record: JobRecord) -> None:
    """Remove what is left of jobs that have ended and were not to be kept; nothing without our own naming.

    A library that the head node does not see is on a disk of the job's node: what is to be removed is written
    down for the next job there.
    """
    leftovers = record.leftovers()
    if not leftovers:
        return
    by_library: dict[str, list[tuple[Submission, int, str | None]]] = {}
    for token, element, node in leftovers:
        submission = record.by_token(token)
        if submission is not None:
            for library in ("work", "util"):
                if directory := submission.request.libraries.get(library):
                    by_library.setdefault(directory, []).append((submission, element, node))
    for directory, jobs in by_library.items():
        _clean_library(access, record, directory, jobs)
    record.swept([(token, element) for token, element, _ in leftovers])


def _clean_library(
    access: SlurmAccess,
    record: JobRecord,
    directory: str,
    jobs: list[tuple[Submission, int, str | None]],
) -> None:
    for first in range(0, len(jobs), SWEEP_AT_ONCE):
        chosen = jobs[first : first + SWEEP_AT_ONCE]
        prefixes = [_prefix(submission, element, record) for submission, element, _ in chosen]
        command = sweep_command(directory, prefixes)
        try:
            status = access.tools.head.run(command, timeout_s=SWEEP_TIMEOUT_S).status
        except GridwrightError:
            # A file system that hangs must not keep jobs from being shown; the directories stay.
            return
        if status == NO_LIBRARY:
            _leave_to_nodes(access, record, directory, chosen)


def _prefix(submission: Submission, element: int, record: JobRecord) -> str:
    ended = record.ended(submission.token).get(element)
    attempt = ended.attempt if ended is not None else submission.attempt
    return private_prefix(JobTag(submission.token, attempt), None if element == WHOLE else element)


def _leave_to_nodes(
    access: SlurmAccess,
    record: JobRecord,
    directory: str,
    jobs: list[tuple[Submission, int, str | None]],
) -> None:
    for submission, element, node in jobs:
        if node is None or "/" in node or "\n" in directory:
            continue
        with (access.directories.leftovers / node).open("a") as file:
            file.write(f"{directory}/{_prefix(submission, element, record)}\n")
