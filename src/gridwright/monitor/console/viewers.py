"""Who looks at the page, and what of jobs that person may see (pure).

Numbers and rates of jobs are what `top` shows to everybody. Whose a job is and how it is called is told to
its owner and to administrators alone: names of jobs have told names of patients before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.monitor.job_rows import JobLoad


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks; `user` is None for somebody of whom no name is known."""

    user: str | None
    is_administrator: bool

    def may_see(self, owner: str | None) -> bool:
        """Whether this person may know whose a job is, and how it is called."""
        return self.is_administrator or (owner is not None and owner == self.user)


@dataclass(frozen=True, slots=True)
class ViewerRule:
    """How it is decided who asks.

    Without `user_header`, whoever has the token is the user who started the console, and an administrator if
    that is root. With it, a proxy of the site that has the token says in that header who it has let in.
    """

    started_by: str
    started_by_root: bool
    user_header: str | None = None
    administrators: frozenset[str] = frozenset()

    def viewer(self, headers: Mapping[str, str]) -> Viewer:
        """Who asks. `headers` have the names in lower case."""
        if self.user_header is None:
            return Viewer(self.started_by, self.started_by_root or self.started_by in self.administrators)
        user = headers.get(self.user_header.lower(), "").strip() or None
        return Viewer(user, user is not None and user in self.administrators)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the scheduler says of a job."""

    job: str
    user: str | None
    name: str
    state: str
    node: str | None = None
    started: float | None = None
    """In seconds since 1970."""


def facts_of(jobs: Sequence[JobLoad], told: Mapping[str, JobFacts]) -> list[JobFacts]:
    """What is known of jobs that are seen: what their scheduler told, else whose processes they are."""
    return [
        told.get(row.job) or JobFacts(job=row.job, user=row.user or None, name="", state="running", node=None)
        for row in jobs
    ]


def seen_by(viewer: Viewer, facts: Sequence[JobFacts]) -> list[JobFacts]:
    """The same, without what the viewer may not see."""
    return [each if viewer.may_see(each.user) else replace(each, user=None, name="") for each in facts]


@dataclass(frozen=True, slots=True)
class UserLoad:
    """What the jobs of a user do together; None where one of them cannot be told."""

    user: str
    jobs: int
    cpus: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None


def user_loads(jobs: Sequence[JobLoad], facts: Mapping[str, JobFacts]) -> list[UserLoad]:
    """One row for each user who may be seen; `jobs` are rows of a picture, `facts` those of `seen_by`."""
    held: dict[str, list[JobLoad]] = {}
    for row in jobs:
        known = facts.get(row.job)
        if known is not None and known.user is not None:
            held.setdefault(known.user, []).append(row)
    return [
        UserLoad(
            user,
            len(rows),
            _whole([row.cpus for row in rows]),
            _whole([row.read_bytes_per_s for row in rows]),
            _whole([row.written_bytes_per_s for row in rows]),
        )
        for user, rows in sorted(held.items())
    ]


def _whole(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None
