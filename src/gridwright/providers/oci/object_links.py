"""A repository that Oracle's managed Lustre carries: its verbs, sync jobs of its link, and how it stands.

Objects of the bucket are asked for by Object Storage's own API, with the credentials that all of OCI takes.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gridwright.errors import environment_error, input_error
from gridwright.providers.linked_repository import (
    LinkStatus,
    ServiceJob,
    ServiceJobs,
    age_of,
    count_objects,
    foresee_export,
    moment_text,
    ordered,
)
from gridwright.providers.oci.layout import GRID_TAG
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.provider import Caller, FlagRefusal
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.references import ObjectReference
from gridwright.repository.settings import ReportedCount, RepositoryReport
from gridwright.repository.store import (
    PAGE,
    ObjectEntry,
    ObjectHead,
    Progress,
    ReadableStore,
    RequestCount,
    StoreError,
    StoreFault,
)
from gridwright.repository.verify import verify_linked
from gridwright.spec.linked import LinkedDirectory
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import NamespacedPlace

LUSTRE = ("lustre_file_storage", "LustreFileStorageClient")
EXPORT, IMPORT = "EXPORT", "IMPORT"
_STARTS = {EXPORT: "start_export_to_object", IMPORT: "start_import_from_object"}
_STOPS = {EXPORT: "stop_export_to_object", IMPORT: "stop_import_from_object"}
_CONFLICT = 409
LONGEST_STILL_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkJob(ServiceJob):
    """A job as it stands, EXPORT or IMPORT; see ServiceJob. Sizes are bytes."""

    link_id: str
    why: str
    overwrite: bool
    scanned: int
    transferred: int
    transferred_bytes: int

    @property
    def progress(self) -> str:
        """See ServiceJob."""
        return f"{self.transferred} of {self.scanned}"


def job_of(link_id: str, found: Any) -> LinkJob:  # noqa: ANN401 - a model of the SDK, which has no types
    """A job as OCI describes it."""
    return LinkJob(
        id=str(found.id),
        link_id=link_id,
        kind=str(found.job_type),
        state=str(found.lifecycle_state),
        why=str(found.lifecycle_details or ""),
        overwrite=bool(found.is_overwrite),
        scanned=int(found.total_objects_scanned or 0),
        transferred=int(found.objects_transferred or 0),
        transferred_bytes=int(found.bytes_transferred or 0),
        failed=int(found.skipped_error_count or 0),
        started=None if found.time_started is None else float(found.time_started.timestamp()),
        ended=None if found.time_finished is None else float(found.time_finished.timestamp()),
    )


@dataclass
class LinkJobs(ServiceJobs[LinkJob, str]):
    """The jobs of one link. Every method raises GridwrightError."""

    service, noun = "OCI", "job"
    longest_still_s = LONGEST_STILL_S
    cloud: OciCloud
    compartment: str
    filesystem_id: str
    link_id: str
    say: Callable[[str], None] = lambda _text: None
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    is_asked: bool = field(default=False, init=False)
    """Whether OCI was asked to start a job, and did not refuse: what the link has under way is ours then."""

    def all(self) -> Iterator[LinkJob]:
        """All that OCI still knows of, those that were started last first."""
        found = self.cloud.listed(*LUSTRE, "list_sync_jobs", self.link_id)
        jobs = (job_of(self.link_id, each) for each in found)
        yield from sorted(jobs, key=lambda job: job.started or 0.0, reverse=True)

    def _begin(self, request: str) -> tuple[LinkJob | None, str]:
        """Links of one file system have one job at a time together (OCI, Exporting to Object Storage)."""
        if (other := self._other()) is not None:
            return None, other
        self.is_asked = True
        try:
            # The SDK sends a token along: a request that it repeats starts no second job.
            return job_of(self.link_id, self.cloud.call(*LUSTRE, _STARTS[request], self.link_id)), ""
        except OciCallError as error:
            if error.http_status != _CONFLICT:
                raise
            self.is_asked = False
            return None, ""

    @property
    def _may_have_begun(self) -> bool:
        return self.is_asked

    def _other(self) -> str | None:
        """A job that works on the file system, by whichever of its links; None where there is none."""
        for each in links_of(self.cloud, self.compartment, self.filesystem_id):
            if each.current_job_id and self._job(str(each.id), str(each.current_job_id)).is_under_way:
                return str(each.current_job_id)
        return None

    def _look(self, job: LinkJob) -> LinkJob:
        return self._job(self.link_id, job.id)

    def _job(self, link_id: str, job_id: str) -> LinkJob:
        return job_of(link_id, self.cloud.call(*LUSTRE, "get_sync_job", link_id, job_id))

    def _cancel(self, request: str, job: LinkJob | None) -> None:
        """Have OCI stop it: what it did stays. Its link is named, so this one has to be under way still."""
        name = job.id if job else f"the job of {self.link_id}"
        answers: list[str] = []

        def stop() -> None:
            mine = [self._look(job)] if job else list(self.all())
            if any(each.is_under_way and each.kind == request for each in mine):
                self.cloud.call(*LUSTRE, _STOPS[request], self.link_id)
                answers.append("stopped; files that were done stay as they are")
            elif job:
                answers.append("it had ended already")
            else:
                answers.append("not under way yet; gridwright repo status tells if it still begins")

        if ordered(stop):
            self.say(f"{name}: {answers[0]}")
        else:
            verb = _STOPS[request].replace("_", "-")
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


WELL, MISSING = "ACTIVE", "missing"
NOT_CARRIED = (
    "deletions: what is gone on one side stays on the other",
    "owner, mode and times alone: a file is copied when its content was changed",
    "hard links: each name becomes a file of its own",
)
"""What jobs do not copy (OCI, Syncing Data with Object Storage, considerations)."""
PASSED_OVER = (
    "changed files whose objects are there already, since overwrite is false; so are changed objects"
)


@dataclass(slots=True, kw_only=True)
class OciLinkStatus(LinkStatus):
    """How a repository stands that managed Lustre carries; see LinkStatus."""

    noun = "job"
    link_id: str | None
    link: str
    """Its state, in Oracle's own word; missing where there is none."""
    overwrite: bool
    under_way: list[LinkJob] = field(default_factory=list)
    last_failed: LinkJob | None = None
    """The last job that failed or left something, where none of its kind went well since."""
    not_carried: list[str] = field(default_factory=list)
    restore_s: float | None = None
    """What a full restore takes at least; None where nothing is known."""
    restore_bound_by: str = ""

    def _remedy(self) -> str:
        return f"Run gridwright repo export {self.repository}, and have cron run it: nothing else does"

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be mended."""
        return self.link == WELL and self.finding is None and self.last_failed is None

    def text(self) -> str:
        """The result for people."""
        state = f"{self.link}: {self.why}" if self.why else self.link
        known = self.restore_s is not None
        restore = f"at least {self.restore_s:.1f} s, bound by {self.restore_bound_by}" if known else "unknown"
        jobs = [f"  under way: {_described(each)}" for each in self.under_way]
        if self.last_failed is not None:
            jobs.append(f"  failed: {_described(self.last_failed)}")
        jobs += [f"  not copied: {each}" for each in self.not_carried]
        connection = f"  link                 {self.link_id or 'none'}, {state}"
        return self._text((connection,), f"{restore}; Oracle does not say how fast jobs are", jobs)


def note_jobs(status: OciLinkStatus, jobs: Sequence[LinkJob]) -> None:
    """Fill in what jobs tell; they are the last started first."""
    status.under_way = [each for each in jobs if each.is_under_way]
    well: set[str] = set()
    for each in jobs:
        if each.kind not in well and (each.state == "FAILED" or (each.state == "SUCCEEDED" and each.failed)):
            status.last_failed = each
            break
        if each.state == "SUCCEEDED":
            well.add(each.kind)
    whole = [each for each in jobs if each.kind == EXPORT and each.state == "SUCCEEDED" and not each.failed]
    status.last_export = max((each.started for each in whole if each.started is not None), default=None)
    # Without overwriting, a changed file keeps the object that it had.
    covering = [each.started for each in whole if each.started is not None and each.overwrite]
    if covering:
        status.unprotected_s = age_of(max(covering))


def note_objects(status: OciLinkStatus, store: ReadableStore, back: Sequence[TransferLimit]) -> None:
    """Fill in what the bucket has below the prefix, and what a restore takes. Raises GridwrightError."""
    status.objects, status.object_bytes = count_objects(status.bucket_url, store)
    slowest = min(back, key=lambda limit: limit.bytes_per_s, default=None)
    if slowest is not None:
        status.restore_s, status.restore_bound_by = (status.object_bytes / slowest.bytes_per_s, slowest.what)


def not_carried(*, overwrite: bool) -> list[str]:
    """What jobs of a link do not copy."""
    return [*NOT_CARRIED, *(() if overwrite else (PASSED_OVER,))]


def _described(job: LinkJob) -> str:
    began = "" if job.started is None else f" of {moment_text(job.started)}"
    files = f"{job.progress} files" + (f", {job.failed} failed" if job.failed else "")
    return f"{job.kind} {job.id}{began}, {job.state}: {job.why or files}"


_OBJECTS = ("object_storage", "ObjectStorageClient")
_FIELDS = "name,size,etag,md5,timeModified,storageTier"
"""What a listing tells of each object (Object Storage API, ListObjects)."""
_CHUNK = 1 << 20
_FAULTS = {404: StoreFault.NOT_THERE, 409: StoreFault.ARCHIVED, 412: StoreFault.CHANGED}
"""GetObject: gone, not restored from the archive tier, or not the object that `if-match` names."""


class OciObjects:
    """See ReadableStore; calls are bounded by OciCloud. Raises OciCallError for all but single objects."""

    def __init__(self, cloud: OciCloud, place: NamespacedPlace) -> None:
        self._cloud, self._place = cloud, place
        self._where = (place.namespace, place.bucket)
        self.requests = RequestCount()
        # A verify asks for heads of what it listed just now, by no more than one page back.
        self._pages: deque[dict[str, Any]] = deque(maxlen=2)

    def list(self, prefix: str, page: int = PAGE) -> Iterator[ObjectEntry]:
        """See ReadableStore. A bucket that is not there is told as what links need."""
        more: dict[str, Any] = {"limit": page}
        while True:
            found = self._page(prefix, more)
            self._pages.append({str(each.name): each for each in found.objects})
            yield from map(_entry, found.objects)
            if not found.next_start_with:
                return
            if (start := str(found.next_start_with)) == more.get("start"):
                said = "its listing goes on where it began"
                raise StoreError(StoreFault.UNSUPPORTED, prefix, said, "ListObjects")
            more = {"limit": page, "start": start}

    def head(self, key: str, version_id: str | None = None) -> Future[ObjectHead]:
        """See ReadableStore: what the listing said, which has the MD5 of objects in one part."""
        found: Future[ObjectHead] = Future()
        listed = self._listed(key)
        if listed is None:
            found.set_exception(StoreError(StoreFault.NOT_THERE, key))
        else:
            found.set_result(ObjectHead(_entry(listed), {}))
        return found

    def get(self, key: str, version_id: str | None = None) -> bytes:
        """See ReadableStore."""
        return b"".join(self._content(key, None))

    def fetch(
        self, reference: ObjectReference, descriptor: int, progress: Progress | None = None
    ) -> Future[str | None]:
        """See ReadableStore; it is done when this returns."""
        done: Future[str | None] = Future()
        listed = self._listed(reference.key)
        size = 0
        try:
            for chunk in self._content(reference.key, None if listed is None else str(listed.etag)):
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                size += len(chunk)
                if progress is not None:
                    progress(len(chunk))
            if size != reference.size:
                raise StoreError(StoreFault.DAMAGED, reference.key, f"{size} of {reference.size} bytes came")
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _listed(self, key: str) -> Any:  # noqa: ANN401 - a model of the SDK, which has no types
        return next((page[key] for page in self._pages if key in page), None)

    def _page(self, prefix: str, more: dict[str, str]) -> Any:  # noqa: ANN401
        self.requests.add("list")
        found = self._cloud.call_or_none(
            *_OBJECTS, "list_objects", *self._where, prefix=prefix, fields=_FIELDS, **more
        )
        if found is None:
            raise environment_error(
                f"bucket {self._place.bucket} of namespace {self._place.namespace} is not in "
                f"{self._cloud.region}, or these credentials may not see it",
                where=f"OCI, {self._cloud.region}",
                remedy="links reach buckets of the same region and tenancy alone: make it there, or name "
                "another one, or have an administrator allow it by a policy",
            )
        return found

    def _content(self, key: str, etag: str | None) -> Iterator[bytes]:
        self.requests.add("get")
        more = {} if etag is None else {"if_match": etag}
        try:
            found = self._cloud.call(*_OBJECTS, "get_object", *self._where, key, **more)
        except OciCallError as error:
            if error.http_status not in _FAULTS:
                raise
            said = error.problems[0].what
            raise StoreError(_FAULTS[error.http_status], key, said) from error
        try:
            yield from found.raw.stream(_CHUNK, decode_content=False)
        except Exception as error:
            if not type(error).__module__.startswith(("requests", "urllib3")):
                raise
            raise StoreError(StoreFault.UNREACHABLE, key, str(error)) from error


def _entry(listed: Any) -> ObjectEntry:  # noqa: ANN401
    """An object as listings of other stores tell it: the ETag of an object in one part is its MD5."""
    changed = listed.time_modified
    return ObjectEntry(
        str(listed.name),
        int(listed.size or 0),
        _hexadecimal(listed.md5) or str(listed.etag or ""),
        0 if changed is None else int(changed.timestamp()) * 10**9,
        str(listed.storage_tier or "Standard").upper(),
    )


def _hexadecimal(md5: str | None) -> str | None:
    try:
        digest = base64.b64decode(md5 or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == 16 else None


_NO_STORE = FlagRefusal(
    "objects are asked for by OCI's own API, with its own credentials",
    "leave it out; OCI_CLI_PROFILE chooses",
)
REFUSED: Mapping[str, FlagRefusal] = {
    "--forget-library": FlagRefusal(
        "the bucket of a file system that carries it itself has no manifest", "leave it out"
    ),
    "--deletions": FlagRefusal(
        "jobs of the file system delete nothing on the other side",
        "leave it out, and delete on both sides: rm, and oci os object bulk-delete",
    ),
    "--prefer": FlagRefusal(
        "jobs of the file system do not ask which side wins",
        "leave it out; overwrite: true in the grid spec has a job replace what is there",
    ),
    "--restore": FlagRefusal(
        "jobs of the file system restore nothing from archives",
        "leave it out, and restore the objects first: oci os object restore",
    ),
    "--endpoint": _NO_STORE,
    "--requester-pays": _NO_STORE,
    "--requests-per-second": _NO_STORE,
}


@dataclass
class OciLinkedRepository:
    """See LinkedRepository."""

    spec: GridSpec
    directory: LinkedDirectory
    cloud: OciCloud
    caller: Caller

    @property
    def refused_flags(self) -> Mapping[str, FlagRefusal]:
        """See LinkedRepository."""
        return REFUSED

    @cached_property
    def compartment(self) -> str:
        """What the grid is made in. Raises GridwrightError where the spec has no section for that."""
        section = self.spec.section(Oci)
        if section is None:
            raise input_error(
                "links are found by section oci", where=str(self.spec.file), remedy="see gridwright help oci"
            )
        return section.compartment

    @cached_property
    def filesystem_id(self) -> str:
        """The file system's OCID. Raises GridwrightError where the grid has none of the name on OCI."""
        name = f"{self.spec.name}-{self.directory.filesystem}"
        found = self.cloud.listed(
            *LUSTRE, "list_lustre_file_systems", compartment_id=self.compartment, display_name=name
        )
        for each in found:
            is_its = (each.freeform_tags or {}).get(GRID_TAG) == self.spec.name
            if is_its and each.lifecycle_state not in ("DELETING", "DELETED"):
                return str(each.id)
        raise environment_error(
            f"file system {self.directory.filesystem} of grid {self.spec.name} is not there",
            where=f"OCI, {self.spec.region}",
            remedy="make the grid with gridwright up",
        )

    def link(self) -> Any | None:  # noqa: ANN401 - a model of the SDK, which has no types
        """The link as OCI tells it; None where there is none of this directory and bucket."""
        desired = NamespacedPlace.parse(self.directory.link.bucket).of_service
        for each in links_of(self.cloud, self.compartment, self.filesystem_id):
            same_place = str(each.file_system_path).strip("/") == self.directory.below
            if same_place and str(each.object_storage_prefix).rstrip("/") == desired:
                return each
        return None

    def status(self, back: Sequence[TransferLimit]) -> OciLinkStatus:
        """See LinkedRepository."""
        found = self.link()
        overwrite = self.directory.link.overwrite if found is None else bool(found.is_overwrite)
        status = OciLinkStatus(
            repository=self.directory.name,
            bucket_url=self.directory.link.bucket,
            directory=self.directory.link.directory,
            filesystem=self.directory.filesystem,
            filesystem_id=self.filesystem_id,
            link_id=None if found is None else str(found.id),
            link=MISSING if found is None else str(found.lifecycle_state),
            why="" if found is None else self._why(found),
            overwrite=overwrite,
            required_s=self.directory.rpo_s,
            not_carried=not_carried(overwrite=overwrite),
        )
        if found is not None:
            note_jobs(status, list(self._jobs(found).all()))
        note_objects(status, self._objects(), back)
        return status

    def export(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository."""
        self._refuse_paths(paths)
        report = RepositoryReport(self.directory.name, "export", dry_run)
        found = self._ready(dry_run)
        if dry_run:
            self._foresee_export(report, found)
        return self._carry_out(EXPORT, found, report, "sent")

    def import_names(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository. Contents come with the names: such a file system has no others."""
        self._refuse_paths(paths)
        report = RepositoryReport(self.directory.name, "import", dry_run)
        found = self._ready(dry_run)
        if dry_run:
            count, size = count_objects(self.directory.link.bucket, self._objects())
            report.done["looked at"] = ReportedCount(count, size)
            report.notes.append("Only Oracle knows which objects are new since the last job.")
        return self._carry_out(IMPORT, found, report, "brought")

    def release(self, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository."""
        raise input_error(
            "Oracle's managed Lustre has no names without contents, so that nothing can be released",
            where=str(self.spec.file) if self.spec.file else None,
            remedy="gridwright repo export and verify, then delete the files; an import brings them again",
        )

    def verify(
        self, paths: Sequence[bytes], read: Sequence[TransferLimit], *, dry_run: bool
    ) -> RepositoryReport:
        """See LinkedRepository."""
        found = self.link()
        name, bucket, objects = self.directory.name, self.directory.link.bucket, self._objects()
        if dry_run:
            report = RepositoryReport(name, "verify", is_dry_run=True)
            count, size = count_objects(bucket, objects)
            report.done["compared, at most"] = ReportedCount(count, size)
            slowest = min(read, key=lambda limit: limit.bytes_per_s, default=None)
            if slowest is not None:
                report.at_least_s, report.at_least_by = size / slowest.bytes_per_s, f"bound by {slowest.what}"
        else:
            report = verify_linked(name, self.directory.mounted, bucket, objects, paths, has_links=False)
        if found is None or found.lifecycle_state != WELL:
            state = MISSING if found is None else str(found.lifecycle_state).lower()
            report.problem("link", f"it is {state}")
        return report

    def _objects(self) -> OciObjects:
        return OciObjects(self.cloud, NamespacedPlace.parse(self.directory.link.bucket))

    def _jobs(self, link: Any) -> LinkJobs:  # noqa: ANN401
        return LinkJobs(self.cloud, self.compartment, self.filesystem_id, str(link.id), self.caller.say)

    def _refuse_paths(self, paths: Sequence[bytes]) -> None:
        if paths:
            raise input_error(
                "a job copies all of a link, and not some paths of it",
                where="PATH",
                remedy="leave the paths out, or give their directory a repository of its own",
            )

    def _ready(self, dry_run: bool) -> Any:  # noqa: ANN401
        """The link, which works. Raises GridwrightError; not of one that is being made, in a dry run."""
        found = self.link()
        if found is not None and (found.lifecycle_state == WELL or dry_run):
            return found
        if found is None:
            what, why = "is not there", ""
        else:
            what, why = f"is {str(found.lifecycle_state).lower()}", self._why(found)
        raise environment_error(
            f"the link of repository {self.directory.name} {what}{f': {why}' if why else ''}",
            where=f"OCI, {self.spec.region}, {self.filesystem_id}",
            remedy="gridwright up makes links as the grid spec has them; remove a failed one first",
        )

    def _why(self, link: Any) -> str:  # noqa: ANN401
        """What OCI says of a link that does not work."""
        if link.lifecycle_state == WELL:
            return ""
        said = [str(link.lifecycle_details)] if link.lifecycle_details else []
        said += work_request_errors(self.cloud, self.compartment, str(link.id))
        return "; ".join(dict.fromkeys(said))

    def _carry_out(self, kind: str, link: Any, report: RepositoryReport, what: str) -> RepositoryReport:  # noqa: ANN401
        begun = time.time()
        if report.is_dry_run:
            report.notes.append(f"A job {kind} of link {link.id} would do it.")
        else:
            self._report(self._jobs(link).run(kind), report, what)
        report.notes += [f"Not copied: {each}" for each in not_carried(overwrite=bool(link.is_overwrite))]
        report.seconds = time.time() - begun
        return report

    def _report(self, job: LinkJob, report: RepositoryReport, what: str) -> None:
        if job.transferred:
            report.done[what] = ReportedCount(job.transferred, job.transferred_bytes)
        if job.state == "CANCELED":
            report.problem(job.id, "somebody stopped it; what it had done stays")
        elif job.state == "FAILED":
            report.problem(job.id, job.why or "it failed, and OCI does not say why")
        if job.failed:
            report.problem(
                job.id,
                f"{job.failed} files failed, which OCI does not name: gridwright repo verify "
                f"{self.directory.name} on a node finds what differs",
            )
        report.notes.append(f"Job {job.id} looked at {job.scanned}")

    def _foresee_export(self, report: RepositoryReport, link: Any) -> None:  # noqa: ANN401
        """How much was changed, where the file system is mounted here: OCI does not tell before a job."""
        jobs = self._jobs(link).all()
        since = next((j.started for j in jobs if j.kind == EXPORT and j.state == "SUCCEEDED"), None)
        foresee_export(report, self.directory.mounted, since)
