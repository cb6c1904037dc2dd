"""What a job waits for: another job, and how that has to end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.errors import Problem


class DependencyType(StrEnum):
    """How a job has to end before the next one starts; the words are those of `gridwright submit --after`."""

    OK = "ok"
    """Completed; of an array every element."""
    ANY = "any"
    """Ended, however."""
    NOT_OK = "not-ok"
    """Ended otherwise than completed; of an array at least one element, once all have ended."""
    EACH = "each"
    """For arrays: each element waits until the element of the other array with its index has completed."""

    @property
    def required(self) -> str:
        """How the other job has to end, in words."""
        return {"any": "ended", "not-ok": "ended, not completed"}.get(self.value, "completed")


@dataclass(frozen=True, slots=True)
class Dependency:
    """One of the jobs that a job waits for."""

    job: str
    """Its identifier; `#N` is request N of the same call of `submit`, from 0, and stands before this one."""
    type: DependencyType = DependencyType.OK

    @property
    def earlier(self) -> int | None:
        """Which request of the same call of `submit` it is; None for a job that was submitted before."""
        return int(self.job[1:]) if self.job.startswith("#") else None

    @property
    def not_earlier(self) -> Problem:
        """That it stands behind the request that waits for it, or is none of the call."""
        return Problem(
            what=f"{self.job} is no earlier request of the same call",
            where="after",
            remedy="name one that stands before it, or the number of a job",
        )

    def __str__(self) -> str:
        return self.job if self.type is DependencyType.OK else f"{self.type}:{self.job}"


def aftercorr_problems(
    array: Sequence[int] | None, other: Sequence[int] | None, job: str
) -> Iterator[Problem]:
    """Problems of an array that waits for another one, `job`, element by element; None stands for no array.

    Slurm calls this dependency aftercorr.
    """
    if array is None or other is None:
        what = f"job {job} is no array" if other is None else "this job is no array"
        what = f"each goes from element to element, and {what}"
        yield Problem(what=what, where="after", remedy=f"write ok:{job}")
    elif missing := sorted(set(array) - set(other)):
        yield Problem(
            what=f"job {job} has no element {missing[0]}, which an element of this array would wait for",
            where="after",
            remedy="give both arrays the same indices",
        )


_FORM = re.compile(r"(?:([a-z-]+):)?(#[0-9]{1,6}|[^:#\s]+)")


def parse_dependency(text: str) -> Dependency | Problem:
    """A dependency as it is written in `JobRequest.after`: JOB, ok:JOB, any:JOB, not-ok:JOB or each:JOB."""
    match = _FORM.fullmatch(text.strip())
    types = ", ".join(DependencyType)
    if match is None:
        return Problem(
            what=f"{text!r} is no job to wait for",
            where="after",
            remedy=f"write JOB or TYPE:JOB, with {types}",
        )
    try:
        return Dependency(match[2], DependencyType(match[1] or "ok"))
    except ValueError:
        return Problem(
            what=f"{match[1]!r} in {text!r} is no way for a job to end",
            where="after",
            remedy=f"write one of {types}, or the job alone for ok",
        )
