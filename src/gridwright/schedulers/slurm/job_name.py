"""The name of a job in Slurm carries our token, by which the job is found wherever Slurm lists it.

Slurm forgets jobs that its controller had not saved when it was killed, and then gives their identifiers to
others. So a job of ours is known by its token, never by Slurm's identifier alone. The name is the one text of
a job that squeue, scontrol, sacct and the file of jobcomp/filetxt all show, in every release; a comment is
not in that file.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LONGEST = 64
_TAGGED = re.compile(r"~([0-9a-f]{16})\.([0-9]{1,6})$")
_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Tag:
    """Which submission a job of Slurm belongs to."""

    token: str
    """16 hexadecimal digits, made for each request."""
    attempt: int
    """0, and one more each time that Slurm had lost the job."""

    def __str__(self) -> str:
        return f"{self.token}.{self.attempt}"


def new_token() -> str:
    """A token that no other submission has: 64 random bits."""
    return secrets.token_hex(8)


def slurm_name(name: str, tag: Tag) -> str:
    """The job's name as Slurm gets it: what users would see, without what a column or a comma could break."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', name)[:_LONGEST]}~{tag}"


def tag_of(name: str) -> Tag | None:
    """The tag in a name that Slurm shows; None for a job that is not ours."""
    found = _TAGGED.search(name)
    return Tag(found[1], int(found[2])) if found else None


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    found = _IDENTIFIER.fullmatch(text)
    if found is None:
        return None
    return found[1], None if found[2] is None else int(found[2])


def fold_indices(indices: Iterable[int]) -> str:
    """Indices as sbatch --array takes them: 1-4,7."""
    parts: list[list[int]] = []
    for index in sorted(set(indices)):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def expand_indices(text: str) -> tuple[int, ...]:
    """Indices that squeue folds: [4-1000%10], 5-6,9-30:3. Raises ValueError for other text."""
    return tuple(_each_index(text.strip("[]").partition("%")[0]))


def _each_index(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        yield from range(int(low), int(high or low) + 1, int(step or 1))
