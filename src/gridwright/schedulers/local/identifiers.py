"""Identifiers of jobs, and the token that marks all processes of a job."""

from __future__ import annotations

import re
from typing import NamedTuple

from gridwright.errors import Problem

NO_INDEX = -1
"""The index of a job that is no array."""
HIGHEST_INDEX = 4_000_000
"""The highest index of an array: as Slurm allows it at most (slurm.conf(5), MaxArraySize)."""
TOKEN = "GRIDWRIGHT_JOB_TOKEN"  # noqa: S105 - the name of a variable, and nothing secret
"""In the environment of a job and so of all that it starts; after a kill, what remains is found by it."""

_IDENTIFIER = re.compile(r"([0-9]{1,15})(?:_([0-9]{1,7}))?", re.ASCII)


class JobKey(NamedTuple):
    """A job, or one element of an array."""

    job: int
    element: int = NO_INDEX

    def __str__(self) -> str:
        return str(self.job) if self.element == NO_INDEX else f"{self.job}_{self.element}"

    @property
    def tasks(self) -> tuple[int, int, int]:
        """The tasks that are meant, for `job=? AND idx BETWEEN ? AND ?`: those of an array are all of it."""
        high = HIGHEST_INDEX if self.element == NO_INDEX else self.element
        return self.job, self.element, high


def parse_identifier(text: str) -> JobKey | Problem:
    """Read 17 or 17_3; what is wrong with it otherwise."""
    match = _IDENTIFIER.fullmatch(text.strip())
    if match is None:
        remedy = "write a number such as 17, or 17_3 for an element of an array; gridwright jobs lists them"
        return Problem(what=f"{text!r} is no job", remedy=remedy)
    return JobKey(int(match[1]), NO_INDEX if match[2] is None else int(match[2]))


def token(store: str, key: JobKey, attempt: int) -> str:
    """What the environment of one attempt of a job holds as TOKEN."""
    return f"{store}:{key.job}:{key.element}:{attempt}"


def read_token(store: str, environment: bytes) -> JobKey | None:
    """Whose process has this environment, as /proc/PID/environ gives it; None if no job's of this store."""
    start = f"{TOKEN}={store}:".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(start):
            parts = entry[len(start) :].split(b":")
            try:
                return JobKey(int(parts[0]), int(parts[1]))
            except (IndexError, ValueError):
                return None
    return None
