"""The verbs of a repository that FSx for Lustre carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gridwright.errors import environment_error, input_error
from gridwright.providers.aws.data_repository.failures import failures_of
from gridwright.providers.aws.data_repository.requests import (
    export_request,
    import_request,
    release_request,
)
from gridwright.providers.aws.data_repository.status import (
    LinkedStatus,
    last_export,
    note_objects,
    note_queue,
    note_tasks,
)
from gridwright.providers.aws.data_repository.tasks import Task, Tasks
from gridwright.providers.aws.names import lasting_tags, logical_id, storage_stack
from gridwright.providers.aws.session import Cloud, request_token
from gridwright.providers.aws.stacks import Stacks
from gridwright.providers.caller import Caller
from gridwright.providers.linked import FlagRefusal
from gridwright.repository.ages import use_of_files
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.service_verify import verify_linked
from gridwright.repository.service_verify_plan import plan_verify_linked
from gridwright.repository.settings import ReportedCount, RepositoryReport
from gridwright.repository.store import ObjectStore
from gridwright.spec.linked import LinkedDirectory
from gridwright.spec.model import GridSpec

FREE = "Tasks and associations of FSx have no price of their own; requests to the bucket have."
REFUSED: Mapping[str, FlagRefusal] = {
    "--forget-library": FlagRefusal(
        "the bucket of a file system that carries it itself has no manifest", "leave it out"
    ),
    "--deletions": FlagRefusal(
        "tasks of the file system take no deletions along",
        "write changed: at-once and deletions: true in the grid spec, then gridwright up",
    ),
    "--prefer": FlagRefusal(
        "tasks of the file system do not ask which side wins",
        "leave it out; a bucket with versions keeps what is replaced",
    ),
    "--contents": FlagRefusal(
        "tasks of the file system bring names; contents come when a file is read",
        "leave it out, and read the files, or run lfs hsm_restore on a node",
    ),
    "--restore": FlagRefusal(
        "tasks of the file system restore nothing from archives",
        "leave it out, and restore the objects first: aws s3api restore-object",
    ),
    "--until-free": FlagRefusal(
        "tasks of the file system release by age, and not until so much is free", "write --unread-for 30d"
    ),
}


@dataclass
class FsxRepository:
    """See LinkedRepository."""

    spec: GridSpec
    directory: LinkedDirectory
    cloud: Cloud
    open_store: Callable[[], ObjectStore]
    caller: Caller

    @property
    def refused_flags(self) -> Mapping[str, FlagRefusal]:
        """See LinkedRepository."""
        return REFUSED

    @cached_property
    def store(self) -> ObjectStore:
        """Its bucket. Raises GridwrightError."""
        return self.open_store()

    @cached_property
    def filesystem_id(self) -> str:
        """The file system's. Raises GridwrightError where the grid has none of the name on AWS."""
        stacks = Stacks(self.cloud, self.caller)
        stack = stacks.find(storage_stack(self.spec))
        found = stacks.resources(stack).get(logical_id(self.directory.filesystem)) if stack else None
        if not found:
            raise environment_error(
                f"file system {self.directory.filesystem} of grid {self.spec.name} is not there",
                where=f"AWS, {self.spec.region}",
                remedy="make the grid with gridwright up",
            )
        return found

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks of the file system."""
        return Tasks(self.cloud, self.filesystem_id, self.caller.say)

    def association(self) -> Mapping[str, Any]:
        """The association as AWS tells it; empty where there is none of this directory and bucket."""
        ids = [{"Name": "file-system-id", "Values": [self.filesystem_id]}]
        for each in self.cloud.listed(
            "fsx", "describe_data_repository_associations", "Associations", Filters=ids
        ):
            same_place = str(each.get("FileSystemPath", "")).strip("/") == self.directory.below
            bucket = str(each.get("DataRepositoryPath", "")).rstrip("/")
            if same_place and bucket == self.directory.link.bucket:
                return dict(each)
        return {}

    def status(self, back: Sequence[TransferLimit]) -> LinkedStatus:
        """See LinkedRepository."""
        found = self.association()
        status = LinkedStatus(
            self.directory.name,
            self.directory.link.bucket,
            self.directory.link.directory,
            self.directory.filesystem,
            self.filesystem_id,
            found.get("AssociationId"),
            str(found.get("Lifecycle") or "missing"),
            str((found.get("FailureDetails") or {}).get("Message") or ""),
            str(self.directory.export),
            required_s=self.directory.rpo_s,
        )
        note_tasks(status, list(self.tasks.all()), self.directory)
        if self.directory.export.is_at_once:
            note_queue(status, self.cloud)
        note_objects(status, self.store, back)
        return status

    def export(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository."""
        if self.directory.export.is_at_once:
            raise input_error(
                f"repository {self.directory.name} exports at once, and FSx runs no export beside it",
                where=str(self.spec.file),
                remedy="gridwright repo status says how far it is; or write export: {changed: never}, then "
                "gridwright up",
            )
        request = export_request(self.directory, paths, identity=request_token())
        report = RepositoryReport(self.directory.name, "export", dry_run)
        if dry_run:
            self._foresee_export(report)
        return self._carry_out(request, report, "sent")

    def import_names(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository."""
        request = import_request(self.directory, paths, identity=request_token())
        report = RepositoryReport(self.directory.name, "import", dry_run)
        if dry_run:
            report.notes.append("Only FSx knows which objects are new: it lists all below the prefix.")
        return self._carry_out(request, report, "made")

    def release(self, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool) -> RepositoryReport:
        """See LinkedRepository."""
        request = release_request(self.directory, paths, unread_for_s, identity=request_token())
        report = RepositoryReport(self.directory.name, "release", dry_run)
        return self._carry_out(request, report, "released")

    def verify(
        self, paths: Sequence[bytes], read: Sequence[TransferLimit], *, dry_run: bool
    ) -> RepositoryReport:
        """See LinkedRepository."""
        found = self.association()
        name, mounted, bucket = self.directory.name, self.directory.mounted, self.directory.link.bucket
        if dry_run:
            report = plan_verify_linked(name, mounted, bucket, self.store, paths, read)
        else:
            report = verify_linked(name, mounted, bucket, self.store, paths)
        if found.get("Lifecycle") != "AVAILABLE":
            state = str(found.get("Lifecycle") or "missing").lower()
            why = (found.get("FailureDetails") or {}).get("Message")
            report.problem("association", f"it is {state}{f': {why}' if why else ''}")
        return report

    def _carry_out(self, request: Mapping[str, Any], report: RepositoryReport, what: str) -> RepositoryReport:
        begun = time.time()
        if report.is_dry_run:
            paths = ", ".join(request.get("Paths", ["/"]))
            report.notes.append(f"A task {request['Type']} of {self.filesystem_id} would do it: {paths}")
            report.notes.append(FREE)
        else:
            # Who may run it may be held to what has this tag.
            tags = [{"Key": key, "Value": value} for key, value in lasting_tags(self.spec).items()]
            self._report(self.tasks.run({**request, "Tags": tags}), report, what)
        report.seconds = time.time() - begun
        return report

    def _report(self, task: Task, report: RepositoryReport, what: str) -> None:
        if task.succeeded:
            report.done[what] = ReportedCount(task.succeeded)
        if task.state == "CANCELED":
            report.problem(task.id, "somebody cancelled it; what it had done stays")
        for name, why in failures_of(task, self.store):
            report.problem(name, why)
        report.notes.append(f"Task {task.id}")

    def _foresee_export(self, report: RepositoryReport) -> None:
        """How much was changed, where the file system is mounted here: FSx does not tell before a task."""
        since = last_export(list(self.tasks.all()), self.directory.below)
        try:
            use = use_of_files(self.directory.mounted, changed_since=since or 0.0)
        except OSError:
            report.notes.append(
                f"{self.directory.mounted} is not mounted here: how much was changed is not known"
            )
            return
        report.done["sent"] = ReportedCount(use.changed_files, use.changed_bytes)
        report.requests = {"put": use.changed_files}
        report.failed.take(use.failed)
