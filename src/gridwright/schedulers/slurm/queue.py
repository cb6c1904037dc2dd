"""Reads Slurm's queue: one call of squeue for all jobs of this user, including those that ended recently."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.errors import GridwrightError, environment_error
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.slurm.queue_row import QueueRow
from gridwright.schedulers.slurm.squeue_json import parse_squeue_json
from gridwright.schedulers.slurm.squeue_text import SQUEUE_FORMAT, parse_squeue_text
from gridwright.schedulers.slurm.tools import SlurmDown, Tools

MANY = 100
"""From so many jobs on, text is asked for: see squeue_text."""
_WHOSE = ["--me", "-a", "-t", "all"]


def read_queue(tools: Tools, expected: int) -> list[QueueRow]:
    """All jobs of this user; `expected` is about how many. Raises GridwrightError (ENVIRONMENT)."""
    if expected < MANY:
        try:
            return parse_squeue_json(tools.query(["squeue", *_WHOSE, "--json"]))
        except SlurmDown:
            raise
        except (GridwrightError, ValueError):
            # Built without JSON, or a form that is newer than this release: the text form is older than both.
            pass
    try:
        return parse_squeue_text(tools.query(["squeue", *_WHOSE, "-h", "-O", SQUEUE_FORMAT]))
    except ValueError as error:
        raise environment_error(
            f"squeue printed what cannot be read: {error}",
            where=tools.head.name,
            remedy="see squeue --version: releases 22.05 to 24.11 are known",
        ) from error


def by_tag(rows: Iterable[QueueRow]) -> dict[JobTag, list[QueueRow]]:
    """Rows of ours, by the submission and the attempt that they belong to."""
    found: dict[JobTag, list[QueueRow]] = {}
    for row in rows:
        if (tag := tag_of(row.name)) is not None:
            found.setdefault(tag, []).append(row)
    return found
