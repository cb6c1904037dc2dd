"""Who looks at the page, and what of jobs that person may see (pure).

Numbers and rates of jobs are what `top` shows to everybody. Whose a job is and how it is called is told to
its owner and to administrators alone: names of jobs have told names of patients before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.monitor.job_rows import JobLoad
from gridwright.monitor.user_rows import UserLoad
from gridwright.monitor.user_sums import UNKNOWN


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


def facts_of(jobs: Sequence[JobLoad], facts: Mapping[str, JobFacts]) -> list[JobFacts]:
    """What is known of jobs that are seen: what their scheduler told, else whose processes they are."""
    return [
        facts.get(row.job)
        or JobFacts(job=row.job, user=row.user or None, name="", state="running", node=None)
        for row in jobs
    ]


def seen_by(viewer: Viewer, facts: Sequence[JobFacts]) -> list[JobFacts]:
    """The same, without what the viewer may not see."""
    return [fact if viewer.may_see(fact.user) else replace(fact, user=None, name="") for fact in facts]


def users_seen_by(
    viewer: Viewer, users: Sequence[UserLoad], jobs: Sequence[JobLoad], facts: Mapping[str, JobFacts]
) -> list[UserLoad]:
    """The users that the viewer may know; the sum of others is for administrators.

    Jobs whose user the nodes could not tell are those of whom their scheduler says, with `facts`.
    """
    held = {user.user: user for user in users}
    for row in jobs:
        owner = facts[row.job].user if row.job in facts else None
        if not row.user and owner is not None and UNKNOWN in held:
            held[UNKNOWN] = _plus(held[UNKNOWN], row, -1)
            held[owner] = _plus(held.get(owner) or _NOBODY, row, 1)
    there = (replace(load, user=user) for user, load in held.items() if load.jobs > 0)
    return [each for each in there if viewer.may_see(each.user)]


_NOBODY = UserLoad(user="", jobs=0, cpus=0.0, read_bytes_per_s=0.0, written_bytes_per_s=0.0)


def _plus(load: UserLoad, job: JobLoad, sign: int) -> UserLoad:
    """With a job, or without it; None stays what cannot be told."""

    def together(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else max(0.0, one + sign * other)

    return replace(
        load,
        jobs=load.jobs + sign,
        cpus=together(load.cpus, job.cpus),
        read_bytes_per_s=together(load.read_bytes_per_s, job.read_bytes_per_s),
        written_bytes_per_s=together(load.written_bytes_per_s, job.written_bytes_per_s),
    )
