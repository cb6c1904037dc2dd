"""What a console shows: the histories of a grid or of this machine, and what is known beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gridwright.errors import GridwrightError
from gridwright.monitor.console.marks import TimeMark
from gridwright.monitor.console.viewers import JobFacts
from gridwright.monitor.history.questions import Histories
from gridwright.monitor.libraries import WatchedLibrary

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
