"""The verbs of a repository that Oracle's managed Lustre carries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gridwright.errors import environment_error, input_error
from gridwright.providers.caller import Caller
from gridwright.providers.linked import FlagRefusal
from gridwright.providers.oci.names import GRID_TAG
from gridwright.providers.oci.object_links.jobs import (
    EXPORT,
    IMPORT,
    LUSTRE,
    LinkJob,
    LinkJobs,
    links_of,
    work_request_errors,
)
from gridwright.providers.oci.object_links.objects import OciObjects
from gridwright.providers.oci.object_links.status import (
    MISSING,
    WELL,
    OciLinkStatus,
    count_objects,
    not_carried,
    note_jobs,
    note_objects,
)
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.repository.ages import use_of_files
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.service_verify import verify_linked
from gridwright.repository.settings import ReportedCount, RepositoryReport
from gridwright.spec.linked import LinkedDirectory
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import NamespacedPlace

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
        wanted = NamespacedPlace.parse(self.directory.link.bucket).of_service
        for each in links_of(self.cloud, self.compartment, self.filesystem_id):
            same_place = str(each.file_system_path).strip("/") == self.directory.below
            if same_place and str(each.object_storage_prefix).rstrip("/") == wanted:
                return each
        return None

    def status(self, back: Sequence[TransferLimit]) -> OciLinkStatus:
        """See LinkedRepository."""
        found = self.link()
        overwrite = self.directory.link.overwrite if found is None else bool(found.is_overwrite)
        status = OciLinkStatus(
            self.directory.name,
            self.directory.link.bucket,
            self.directory.link.directory,
            self.directory.filesystem,
            self.filesystem_id,
            None if found is None else str(found.id),
            MISSING if found is None else str(found.lifecycle_state),
            "" if found is None else self._why(found),
            overwrite,
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
        try:
            use = use_of_files(self.directory.mounted, changed_since=since or 0.0)
        except OSError:
            report.notes.append(
                f"{self.directory.mounted} is not mounted here: how much was changed is not known"
            )
            return
        report.done["sent"] = ReportedCount(use.changed_files, use.changed_bytes)
        report.failed.take(use.failed)
