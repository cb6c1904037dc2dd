"""The name of a job in Slurm carries our token, by which the job is found wherever Slurm lists it.

Slurm forgets jobs that its controller had not saved when it was killed, and then gives their identifiers to
others. So a job of ours is known by its token, never by Slurm's identifier alone. The name is the one text of
a job that squeue, scontrol, sacct and the file of jobcomp/filetxt all show, in every release; a comment is
not in that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gridwright.schedulers.job_tag import JobTag

_LONGEST = 64
_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


def slurm_name(name: str, tag: JobTag) -> str:
    """The job's name as Slurm gets it: what users would see, without what a column or a comma could break."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', name)[:_LONGEST]}~{tag}"


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    match = _IDENTIFIER.fullmatch(text)
    if match is None:
        return None
    return match[1], None if match[2] is None else int(match[2])


def expand_indices(text: str) -> tuple[int, ...]:
    """Indices that squeue folds: [4-1000%10], 5-6,9-30:3. Raises ValueError for other text."""
    return tuple(_array_indices(text.strip("[]").partition("%")[0]))


def _array_indices(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        yield from range(int(low), int(high or low) + 1, int(step or 1))
