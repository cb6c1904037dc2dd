"""A job's name with its scheduler carries our token, by which it is found wherever the scheduler lists it.

Schedulers give the numbers of jobs that they have forgotten to others: a job of ours is known by its token,
never by a number alone.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

_TAGGED = re.compile(r"~([0-9a-f]{16})\.([0-9]{1,6})$")


@dataclass(frozen=True, slots=True)
class JobTag:
    """Which submission a job of the scheduler belongs to; its name there ends with it."""

    token: str
    """16 hexadecimal digits, made for each request."""
    attempt: int
    """0, and one more each time that it is not known whether the scheduler has the job."""

    def __str__(self) -> str:
        return f"{self.token}.{self.attempt}"


def new_token() -> str:
    """A token that no other submission has: 64 random bits."""
    return secrets.token_hex(8)


def tag_of(name: str) -> JobTag | None:
    """The tag in a name; None for a job that is not ours."""
    found = _TAGGED.search(name)
    return JobTag(found[1], int(found[2])) if found else None
