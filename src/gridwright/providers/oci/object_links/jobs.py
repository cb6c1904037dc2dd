"""Sync jobs of a link: started in their turn, followed to their end, and stopped when the command is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.oci.session import OciCallError, OciCloud

LUSTRE = ("lustre_file_storage", "LustreFileStorageClient")
EXPORT, IMPORT = "EXPORT", "IMPORT"
_STARTS = {EXPORT: "start_export_to_object", IMPORT: "start_import_from_object"}
_STOPS = {EXPORT: "stop_export_to_object", IMPORT: "stop_import_from_object"}
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
"""Oracle's words for a job that is over (oci SDK 2.189.0, lustre_file_storage.models.SyncJob)."""
_CONFLICT = 409
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
LONGEST_TURN_S = 3600.0
"""How long a job waits for its turn behind others of the file system."""
LONGEST_STILL_S = 3600.0
"""How long a job may tell nothing new: then OCI goes on with it, and nobody waits."""
_STOP_S = 0.8
"""An order to stop is obeyed within a second."""


@dataclass(frozen=True, slots=True)
class LinkJob:
    """A job as it stands. Times are seconds since 1970, None for what has not come; sizes are bytes."""

    id: str
    link_id: str
    kind: str
    """EXPORT or IMPORT."""
    state: str
    why: str
    overwrite: bool
    scanned: int
    transferred: int
    transferred_bytes: int
    failed: int
    started: float | None
    ended: float | None

    @property
    def is_under_way(self) -> bool:
        """Whether it is not at its end."""
        return self.state not in ENDED


def job_of(link_id: str, found: Any) -> LinkJob:  # noqa: ANN401 - a model of the SDK, which has no types
    """A job out of what OCI tells."""
    return LinkJob(
        str(found.id),
        link_id,
        str(found.job_type),
        str(found.lifecycle_state),
        str(found.lifecycle_details or ""),
        bool(found.is_overwrite),
        int(found.total_objects_scanned or 0),
        int(found.objects_transferred or 0),
        int(found.bytes_transferred or 0),
        int(found.skipped_error_count or 0),
        None if found.time_started is None else float(found.time_started.timestamp()),
        None if found.time_finished is None else float(found.time_finished.timestamp()),
    )


@dataclass(slots=True)
class LinkJobs:
    """The jobs of one link. Every method raises GridwrightError."""

    cloud: OciCloud
    compartment: str
    filesystem_id: str
    link_id: str
    say: Callable[[str], None] = lambda _text: None
    """Takes one line of progress."""
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    is_asked: bool = field(default=False, init=False)
    """Whether OCI was asked to start a job, and did not refuse: what the link has under way is ours then."""

    def all(self) -> Iterator[LinkJob]:
        """All that OCI still knows of, those that were started last first."""
        found = self.cloud.listed(*LUSTRE, "list_sync_jobs", self.link_id)
        jobs = (job_of(self.link_id, each) for each in found)
        yield from sorted(jobs, key=lambda job: job.started or 0.0, reverse=True)

    def run(self, kind: str) -> LinkJob:
        """Start a job, behind others of the file system if it must be, and follow it.

        An interrupt stops it, also one that comes before OCI's answer to the start does. Where OCI answers
        no more, it goes on, and that is said.
        """
        job: LinkJob | None = None
        try:
            job = self._start(kind)
            self.say(f"{job.id}: {job.state.lower()}")
            return self._follow(job)
        except GridwrightError:
            if job is not None:
                self.say(f"{job.id}: OCI goes on with it; gridwright repo status tells how far it is")
            raise
        except BaseException:
            if job is not None or self.is_asked:
                self._stop(kind, job)
            raise

    def _start(self, kind: str) -> LinkJob:
        """Links of one file system have one job at a time together (OCI, Exporting to Object Storage)."""
        begun, pause, is_told = self.clock(), FIRST_WAIT_S, False
        while True:
            if (other := self._other()) is None:
                self.is_asked = True
                try:
                    # The SDK sends a token along: a request that it repeats starts no second job.
                    return job_of(self.link_id, self.cloud.call(*LUSTRE, _STARTS[kind], self.link_id))
                except OciCallError as error:
                    if error.http_status != _CONFLICT:
                        raise
                    self.is_asked = False
            if self.clock() - begun >= LONGEST_TURN_S:
                raise environment_error(
                    f"another job works on {self.filesystem_id} for an hour now",
                    remedy="look at it with gridwright repo status; run the same command when it ended",
                )
            if not is_told:
                self.say(f"waiting for another job of {self.filesystem_id}{f': {other}' if other else ''}")
                is_told = True
            self.wait(pause)
            pause = min(2 * pause, LONGEST_WAIT_S)

    def _other(self) -> str | None:
        """A job that works on the file system, by whichever of its links; None where there is none."""
        for each in links_of(self.cloud, self.compartment, self.filesystem_id):
            if each.current_job_id and self._look(str(each.id), str(each.current_job_id)).is_under_way:
                return str(each.current_job_id)
        return None

    def _follow(self, job: LinkJob) -> LinkJob:
        pause, told, still = FIRST_WAIT_S, "", self.clock()
        while job.is_under_way:
            job = self._look(self.link_id, job.id)
            progress = f"{job.id}: {job.state.lower()}, {job.transferred} of {job.scanned} files"
            if progress != told:
                self.say(progress + (f", {job.failed} failed" if job.failed else ""))
                told, pause, still = progress, FIRST_WAIT_S, self.clock()
            if job.is_under_way:
                if self.clock() - still >= LONGEST_STILL_S:
                    raise environment_error(
                        f"job {job.id} has told nothing new for an hour; it is {job.state.lower()}",
                        remedy="look at it with gridwright repo status, or stop it in the console",
                    )
                self.wait(pause)
                pause = min(2 * pause, LONGEST_WAIT_S)
        return job

    def _look(self, link_id: str, job_id: str) -> LinkJob:
        return job_of(link_id, self.cloud.call(*LUSTRE, "get_sync_job", link_id, job_id))

    def _stop(self, kind: str, job: LinkJob | None) -> None:
        """Have OCI stop it: what it did stays. Its link is told, so this one has to be under way still."""
        name = job.id if job else f"the job of {self.link_id}"
        told: list[str] = []

        def ask() -> None:
            with suppress(GridwrightError):
                mine = [self._look(self.link_id, job.id)] if job else list(self.all())
                if any(each.is_under_way and each.kind == kind for each in mine):
                    self.cloud.call(*LUSTRE, _STOPS[kind], self.link_id)
                    told.append("stopped; files that were done stay as they are")
                elif job:
                    told.append("it had ended already")
                else:
                    told.append("not under way yet; gridwright repo status tells if it still begins")
                done.set()

        done = threading.Event()
        threading.Thread(target=ask, daemon=True).start()
        if done.wait(_STOP_S):
            self.say(f"{name}: {told[0]}")
        else:
            verb = _STOPS[kind].replace("_", "-")
            self.say(
                f"{name}: OCI did not answer whether it is stopped: "
                f"oci lfs object-storage-link {verb} --object-storage-link-id {self.link_id}"
            )


def links_of(cloud: OciCloud, compartment: str, filesystem_id: str) -> list[Any]:
    """The links of a file system that are not gone. Raises GridwrightError."""
    found = cloud.listed(
        *LUSTRE, "list_object_storage_links", compartment_id=compartment, lustre_file_system_id=filesystem_id
    )
    return [each for each in found if each.lifecycle_state != "DELETED"]


def work_request_errors(cloud: OciCloud, compartment: str, resource_id: str) -> list[str]:
    """What went wrong with a file system or a link, in OCI's words. Raises GridwrightError."""
    failed = cloud.listed(
        *LUSTRE, "list_work_requests", compartment_id=compartment, resource_id=resource_id, status="FAILED"
    )
    return [
        str(error.message)
        for each in failed
        for error in cloud.listed(*LUSTRE, "list_work_request_errors", each.id)
    ]
