"""Removes private directories of jobs that were killed with the program that would have removed them."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.errors import GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import BatchJobEnd, BatchRecord
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.private_sweep import SWEEP_AT_ONCE, SWEEP_TIMEOUT_S, sweep_command


def clean_up(head: HeadNode, record: BatchRecord) -> None:
    """Remove what is left of jobs that have ended and were not to be kept; nothing without our own naming.

    A library that the head node does not see is on a disk of the job's node: what is left there stays.
    """
    by_library: dict[str, list[tuple[BatchJobEnd, str]]] = {}
    leftovers = record.leftovers()
    for end in leftovers:
        submission = record.by_token(end.token)
        if submission is None:
            continue
        prefix = f"gridwright-{submission.tag}" + ("." if end.element == WHOLE else f"_{end.element}.")
        for library in ("work", "util"):
            if directory := submission.request.libraries.get(library):
                by_library.setdefault(directory, []).append((end, prefix))
    for directory, found in by_library.items():
        if not _swept(head, directory, [prefix for _, prefix in found]):
            # A file system that hangs must not keep jobs from being shown; the next command tries again.
            return
    if leftovers:
        record.swept(leftovers)


def _swept(head: HeadNode, directory: str, prefixes: Sequence[str]) -> bool:
    for first in range(0, len(prefixes), SWEEP_AT_ONCE):
        command = sweep_command(directory, prefixes[first : first + SWEEP_AT_ONCE])
        try:
            head.run(command, timeout_s=SWEEP_TIMEOUT_S)
        except GridwrightError:
            return False
    return True
