"""What a console shows: histories of a grid or a machine, marks of runs, and who looks at it.

Numbers and rates of jobs are what `top` shows to everybody. Whose a job is and how it is called is told to
its owner and to administrators alone: names of jobs have told names of patients before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, Literal, TypeVar

from gridwright.errors import GridwrightError
from gridwright.monitor.history.questions import Histories
from gridwright.monitor.job_rows import UNKNOWN, JobLoad, UserLoad
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.report.verdict import KINDS, is_summed_up, summarize
from gridwright.runs.directory import LoadedRun, list_runs
from gridwright.runs.place import of_whom

AGAIN_S = 20.0
"""How often the directory of runs is looked at: each look reads the records of all runs."""
MOST_MARKS = 500
MarkState = Literal["good", "bad", "doubt", "other"]
_STATES: dict[str, MarkState] = {"met": "good", "missed": "bad", "failed": "bad", "unproven": "doubt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMark:
    """Something that began and ended (None: it goes on), in seconds since 1970."""

    kind: Literal["run", "finding"]
    name: str
    text: str
    state: MarkState
    start_s: float
    end_s: float | None


class RunMarks:
    """Runs of a directory, looked up again now and then. Threads may use it at the same time."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._marks: list[TimeMark] = []
        self._looked: float | None = None

    def within(self, start_s: float, end_s: float) -> list[TimeMark]:
        """Marks that touch a range, the newest MOST_MARKS of them; none where there are no runs."""
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked > AGAIN_S:
                self._marks, self._looked = _marks_of(self._runs), time.monotonic()
            marks = [
                mark
                for mark in self._marks
                if mark.start_s <= end_s and (mark.end_s is None or mark.end_s >= start_s)
            ]
        return marks[-MOST_MARKS:]


def _marks_of(runs: Path) -> list[TimeMark]:
    try:
        found = list_runs(runs)
    except (GridwrightError, OSError):
        return []
    # A range shows the last ones: what others lay out there in any number takes no place of one's own.
    found.sort(key=lambda each: each.owner == os.geteuid())
    return [mark for run in found if is_summed_up(run) and (mark := mark_of(run)) is not None]


def mark_of(run: LoadedRun) -> TimeMark | None:
    """The mark of a run; None where its record has no time that can be read."""
    start = _seconds(run.run.started)
    if start is None:
        return None
    summary = summarize(run)
    words = [KINDS[summary.kind], *([summary.grade] if summary.grade else []), summary.figure_text]
    return TimeMark(
        kind="run",
        name=run.path.name,
        text=f"{' and '.join(run.run.what) or 'run'} {run.run.name}{of_whom(run.owner)}: {', '.join(words)}",
        state=_STATES.get(summary.kind, "other"),
        start_s=start,
        end_s=_seconds(run.run.finished)
        if run.run.finished
        else (None if summary.kind == "running" else start),
    )


def _seconds(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def plain_marks(marks: Sequence[TimeMark]) -> list[dict[str, object]]:
    """Marks in plain values."""
    return [
        {
            "kind": mark.kind,
            "name": mark.name,
            "text": mark.text,
            "state": mark.state,
            "from": mark.start_s,
            "to": mark.end_s,
        }
        for mark in marks
    ]


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


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """What the grid costs by the hour, by listed prices; None where nothing has a price, and why."""

    usd_per_hour: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository of the spec."""

    name: str
    library: str
    place: str
    """The bucket, as a URL."""
    carried_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFinding:
    """Something that a watch has found wrong, and that is not mended; see `gridwright watch`."""

    level: str
    name: str
    where: str
    """Nodes, and what of them."""
    found: str
    since_s: float
    is_flapping: bool = False


class Remembered(Generic[Value]):
    """An answer that is asked for again when it is old; while nobody answers, the last one stays.

    Threads may use it at the same time: one of them asks, and the others take what there is.
    """

    def __init__(self, ask: Callable[[], Value], empty: Value, again_s: float) -> None:
        self._ask = ask
        self._value = empty
        self._again_s = again_s
        self._asked: float | None = None
        self._lock = threading.Lock()
        self.failure = ""

    def get(self) -> Value:
        """The answer, which is at most `again_s` old where it can be had."""
        if self._asked is not None and time.monotonic() - self._asked < self._again_s:
            return self._value
        if self._lock.acquire(blocking=self._asked is None):
            try:
                self._value, self.failure = self._ask(), ""
            except (GridwrightError, OSError) as error:
                self.failure = str(error).splitlines()[0]
            finally:
                self._asked = time.monotonic()
                self._lock.release()
        return self._value


def _no_marks(_start_s: float, _end_s: float) -> list[TimeMark]:
    return []


def _no_findings() -> Sequence[OpenFinding]:
    return ()


def _no_jobs() -> Sequence[JobFacts]:
    return ()


def _no_absences() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """All that the page is made of."""

    name: str
    """Of the grid, or of this machine."""
    histories: Histories
    libraries: Sequence[WatchedLibrary] = ()
    marks: Callable[[float, float], Sequence[TimeMark]] = _no_marks
    jobs: Callable[[], Sequence[JobFacts]] = _no_jobs
    """What the scheduler says of jobs."""
    findings: Callable[[], Sequence[OpenFinding]] = _no_findings
    """What a watch of the grid has found wrong now."""
    explain: Callable[[float, float], str] | None = None
    """Why it is slow at a time, over so many seconds, in words; they name users and programs."""
    cost: HourlyCost = field(default_factory=lambda: HourlyCost(None, "this grid has no prices"))
    repositories: Sequence[RepositoryFacts] = ()
    absences: Callable[[], Mapping[str, str]] = _no_absences
    """Why nodes give no samples now, where more is known of it than that they give none."""
    refresh_s: float = 2.0
    """How often a page may ask again: a history on other machines is asked by a program on each of them."""
    is_machine: bool = False
    """Whether it is one machine without a spec."""
    clock: Callable[[], float] = time.time


def by_job(facts: Sequence[JobFacts]) -> Mapping[str, JobFacts]:
    """Facts by the job's number."""
    return {fact.job: fact for fact in facts}
