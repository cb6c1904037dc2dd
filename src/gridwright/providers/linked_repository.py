"""Repositories that a service of a cloud carries: its jobs, followed to their end, and how each stands."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from gridwright.errors import Finding, GridwrightError, environment_error
from gridwright.repository.keys import Keys, prefix_of
from gridwright.repository.settings import ReportedCount, RepositoryReport
from gridwright.repository.status import RECOVERY_POINT_MISSED
from gridwright.repository.store import ReadableStore
from gridwright.repository.use_report import use_of_files
from gridwright.units import format_bytes, format_duration

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
"""Words of AWS and of OCI for a job that is over (Amazon FSx API Reference; oci SDK 2.189.0, SyncJob)."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
LONGEST_TURN_S = 3600.0
"""How long a job waits for its turn behind others of the file system."""
_ORDER_S = 0.8
"""An order to stop is obeyed within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob(ABC):
    """A job of such a service as it stands. Times are seconds since 1970, None for what has not come."""

    id: str
    kind: str
    state: str
    """In the service's own word."""
    failed: int
    """Files that it could not do."""
    started: float | None
    ended: float | None

    @property
    @abstractmethod
    def progress(self) -> str:
        """How many files are done, of how many."""

    @property
    def is_under_way(self) -> bool:
        """Whether it is not at its end."""
        return self.state not in ENDED


Job = TypeVar("Job", bound=ServiceJob)
Request = TypeVar("Request")


class ServiceJobs(ABC, Generic[Job, Request]):
    """The jobs of one file system, which does one at a time. Every method raises GridwrightError."""

    service: ClassVar[str]
    noun: ClassVar[str]
    longest_still_s: ClassVar[float] = math.inf
    """How long a job may report nothing new: then the service goes on with it, and the command ends."""
    filesystem_id: str
    say: Callable[[str], None]
    """Takes one line of progress."""
    wait: Callable[[float], None]
    clock: Callable[[], float]

    @abstractmethod
    def _begin(self, request: Request) -> tuple[Job | None, str]:
        """The job that was started; None where another one works, with its name if that is known."""

    @property
    @abstractmethod
    def _may_have_begun(self) -> bool:
        """Whether the service got a request to start a job, and did not refuse it."""

    @abstractmethod
    def _look(self, job: Job) -> Job:
        """A job as it is now."""

    @abstractmethod
    def _cancel(self, request: Request, job: Job | None) -> None:
        """Have the service end it: what it did stays."""

    def run(self, request: Request) -> Job:
        """Start a job, behind others if it must be, and follow it.

        An interrupt cancels it, also one that comes before the service's answer to the request does. Where
        the service answers no more, it goes on, and that is said.
        """
        job: Job | None = None
        try:
            job = self._start(request)
            self.say(f"{job.id}: {job.state.lower()}")
            return self._follow(job)
        except GridwrightError:
            if job is not None:
                self.say(
                    f"{job.id}: {self.service} goes on with it; gridwright repo status tells how far it is"
                )
            raise
        except BaseException:
            if job is not None or self._may_have_begun:
                self._cancel(request, job)
            raise

    def _start(self, request: Request) -> Job:
        begun, pause, is_announced = self.clock(), FIRST_WAIT_S, False
        while True:
            job, other = self._begin(request)
            if job is not None:
                return job
            if self.clock() - begun >= LONGEST_TURN_S:
                raise environment_error(
                    f"another {self.noun} works on {self.filesystem_id} for an hour now",
                    remedy="look at it with gridwright repo status; run the same command when it ended",
                )
            if not is_announced:
                named = f": {other}" if other else ""
                self.say(f"waiting for another {self.noun} of {self.filesystem_id}{named}")
                is_announced = True
            self.wait(pause)
            pause = min(2 * pause, LONGEST_WAIT_S)

    def _follow(self, job: Job) -> Job:
        pause, reported, changed = FIRST_WAIT_S, "", self.clock()
        while job.is_under_way:
            job = self._look(job)
            progress = f"{job.id}: {job.state.lower()}, {job.progress} files"
            if progress != reported:
                self.say(progress + (f", {job.failed} failed" if job.failed else ""))
                reported, pause, changed = progress, FIRST_WAIT_S, self.clock()
            if job.is_under_way:
                if self.clock() - changed >= self.longest_still_s:
                    raise environment_error(
                        f"{self.noun} {job.id} has told nothing new for an hour; it is {job.state.lower()}",
                        remedy="look at it with gridwright repo status, or stop it in the console",
                    )
                self.wait(pause)
                pause = min(2 * pause, LONGEST_WAIT_S)
        return job


def ordered(order: Callable[[], None]) -> bool:
    """Give an order to a service in a thread of its own; whether it answered within a second."""
    done = threading.Event()

    def give() -> None:
        with suppress(GridwrightError):
            order()
            done.set()

    threading.Thread(target=give, daemon=True).start()
    return done.wait(_ORDER_S)


@dataclass(slots=True, kw_only=True)
class LinkStatus(ABC):
    """What is known without looking at files. Sizes are bytes, times seconds since 1970."""

    repository: str
    bucket_url: str
    directory: str
    filesystem: str
    filesystem_id: str
    why: str
    """What the service says of a state that is not well."""
    objects: int = 0
    object_bytes: int = 0
    last_export: float | None = None
    """When the last whole export by a job began."""
    unprotected_s: float | None = None
    """How old a change may be that no object has, at most: the achieved recovery point."""
    required_s: float | None = None

    noun: ClassVar[str]

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""
        if self.required_s is None:
            return None
        if self.unprotected_s is not None and self.unprotected_s <= self.required_s:
            return None
        now = (
            self._never_exported()
            if self.unprotected_s is None
            else f"the oldest change that may have none is {format_duration(self.unprotected_s)} old"
        )
        if now is None:
            return None
        return Finding(
            "warning",
            RECOVERY_POINT_MISSED,
            f"repository {self.repository}: no change may be older than {format_duration(self.required_s)} "
            f"without an object, and {now}",
            self._remedy(),
        )

    def _never_exported(self) -> str | None:
        """Why the age of the oldest change is unknown; None where that is well."""
        return f"no {self.noun} has exported all of it"

    @abstractmethod
    def _remedy(self) -> str:
        """What to do where changes are older than they may be."""

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        finding = self.finding
        return asdict(self) | {"finding": None if finding is None else asdict(finding)}

    def _text(self, connection: Sequence[str], restore: str, jobs: Iterable[str]) -> str:
        """The result for people; `connection` and `jobs` are lines about what the service has."""
        when = "never" if self.last_export is None else moment_text(self.last_export)
        point = "unknown" if self.unprotected_s is None else format_duration(self.unprotected_s)
        desired = (
            "" if self.required_s is None else f", and {format_duration(self.required_s)} at most is required"
        )
        finding = [] if self.finding is None else str(self.finding).splitlines()
        first, *more = connection
        return "\n".join(
            [
                f"{self.repository}: {self.directory} of {self.filesystem} ({self.filesystem_id}) and "
                f"{self.bucket_url}",
                first,
                f"  objects              {self.objects} ({format_bytes(self.object_bytes)})",
                *more,
                f"  last whole export    {when}, by a {self.noun}",
                f"  oldest change that may have no object: {point}{desired}",
                f"  full restore: {restore}",
                *jobs,
                *(f"  {line}" for line in finding),
            ]
        )


def moment_text(seconds: float) -> str:
    """A moment in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def age_of(moment: float) -> float:
    """Seconds since a moment, by the clock of this machine; none for one that is yet to come."""
    return max(0.0, time.time() - moment)


def count_objects(bucket_url: str, store: ReadableStore) -> tuple[int, int]:
    """Objects below the prefix that are files', and their bytes. Raises GridwrightError."""
    keys = Keys(prefix_of(bucket_url))
    count = size = 0
    for entry in store.list(keys.start):
        if not keys.is_own(entry.key):
            count += 1
            size += entry.size
    return count, size


def foresee_export(report: RepositoryReport, mounted: Path, changed_since: float | None) -> int | None:
    """Count files that were changed, where the file system is mounted here; None where it is not.

    No service reports it before a job.
    """
    try:
        use = use_of_files(mounted, changed_since=changed_since or 0.0)
    except OSError:
        report.notes.append(f"{mounted} is not mounted here: how much was changed is not known")
        return None
    report.done["sent"] = ReportedCount(use.changed_files, use.changed_bytes)
    report.failed.take(use.failed)
    return use.changed_files
