"""A repository that FSx for Lustre carries: its verbs, its tasks, followed to their end, and how it stands.

Paths of requests are as the Amazon FSx API Reference has them (CreateDataRepositoryTask): of an export and a
release relative to the file system, of an import those of the bucket.

The report of files that a task could not do is REPORT_CSV_20191124, which FSx puts into the bucket. Columns
are file, status and error (Amazon FSx API Reference, CompletionReport); whether a line of titles comes first
is not said there, so that one is passed over.
"""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from gridwright.errors import environment_error, input_error
from gridwright.providers.aws.names import lasting_tags, logical_id, storage_stack
from gridwright.providers.aws.session import Cloud, CloudError, request_token
from gridwright.providers.aws.stacks import Stacks
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
from gridwright.providers.provider import Caller, FlagRefusal
from gridwright.repository.forecast import TransferLimit, service_restore
from gridwright.repository.keys import RESERVED, KeyRefusal, Keys, bucket_of, prefix_of, shown
from gridwright.repository.settings import ReportedCount, RepositoryReport
from gridwright.repository.status import foresee_restore, restore_text
from gridwright.repository.store import ObjectStore, StoreError
from gridwright.repository.verify import plan_verify_linked, verify_linked
from gridwright.spec.linked import LinkedDirectory
from gridwright.spec.model import GridSpec

EXPORT, IMPORT = "EXPORT_TO_REPOSITORY", "IMPORT_METADATA_FROM_REPOSITORY"
RELEASE = "RELEASE_DATA_FROM_FILESYSTEM"
MOST_PATHS = 32
"""Of one task (FSx for Lustre User Guide, data repository tasks)."""
DAY_S = 86_400


def export_request(directory: LinkedDirectory, paths: Sequence[bytes], *, identity: str) -> dict[str, Any]:
    """Export what was created or changed. Raises GridwrightError (INPUT)."""
    return _request(EXPORT, _of_files(directory, paths), directory, identity)


def import_request(directory: LinkedDirectory, paths: Sequence[bytes], *, identity: str) -> dict[str, Any]:
    """Import names and attributes of new and changed objects. Raises GridwrightError (INPUT)."""
    bucket = directory.link.bucket
    keys = Keys(prefix_of(bucket))
    root = bucket_of(bucket)
    try:
        desired = [f"s3://{root}/{keys.key_of(each)}" for each in _few(paths)] or [bucket]
    except KeyRefusal as error:
        raise input_error(f"{error.what} {error.reason}", where="PATH") from None
    return _request(IMPORT, desired, directory, identity)


def release_request(
    directory: LinkedDirectory, paths: Sequence[bytes], unread_for_s: float, *, identity: str
) -> dict[str, Any]:
    """Release exported files that nobody touched for so long, in whole days rounded up.

    Raises GridwrightError (INPUT).
    """
    days = {"Unit": "DAYS", "Value": math.ceil(unread_for_s / DAY_S)}
    desired = _of_files(directory, paths) or ["/"]
    return _request(RELEASE, desired, directory, identity) | {
        "ReleaseConfiguration": {"DurationSinceLastAccess": days}
    }


def report_place(directory: LinkedDirectory) -> str:
    """Where FSx puts reports of failed files: it has to be below the linked prefix."""
    return f"{directory.link.bucket}/{RESERVED}/tasks"


def _request(kind: str, paths: list[str], directory: LinkedDirectory, identity: str) -> dict[str, Any]:
    return {
        "Type": kind,
        **({"Paths": paths} if paths else {}),
        "Report": {
            "Enabled": True,
            "Path": report_place(directory),
            "Format": "REPORT_CSV_20191124",
            "Scope": "FAILED_FILES_ONLY",
        },
        "ClientRequestToken": identity,
    }


def _of_files(directory: LinkedDirectory, paths: Sequence[bytes]) -> list[str]:
    below = f"{directory.below}/" if directory.below else ""
    try:
        found = [f"{below}{each.decode('utf-8')}" for each in _few(paths)]
    except UnicodeDecodeError as error:
        raise input_error(
            f"{shown(error.object)} is not UTF-8, and FSx takes no other names",
            where="PATH",
            remedy="name the directory that it is in",
        ) from None
    return found or ([directory.below] if directory.below else [])


def _few(paths: Sequence[bytes]) -> Sequence[bytes]:
    if len(paths) > MOST_PATHS:
        raise input_error(
            f"{len(paths)} paths are more than the {MOST_PATHS} that a task of FSx takes",
            where="PATH",
            remedy="name directories that they are in",
        )
    return paths


BUSY = "DataRepositoryTaskExecuting"
"""Another task works on the file system (Amazon FSx API Reference, CreateDataRepositoryTask)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ServiceJob):
    """A task as it stands; see ServiceJob."""

    created: float
    paths: tuple[str, ...]
    total: int
    succeeded: int
    report: str | None
    """Where its reports are: s3://bucket/prefix."""
    failure: str

    @property
    def progress(self) -> str:
        """See ServiceJob."""
        return f"{self.succeeded + self.failed} of {self.total}"


def task_of(found: Mapping[str, Any]) -> Task:
    """A task as AWS describes it."""
    status = found.get("Status") or {}
    report = found.get("Report") or {}
    return Task(
        id=str(found["TaskId"]),
        kind=str(found["Type"]),
        state=str(found["Lifecycle"]),
        created=found["CreationTime"].timestamp(),
        started=_seconds(found.get("StartTime")),
        ended=_seconds(found.get("EndTime")),
        paths=tuple(found.get("Paths") or ()),
        total=int(status.get("TotalCount") or 0),
        succeeded=int(status.get("SucceededCount") or 0),
        failed=int(status.get("FailedCount") or 0),
        report=report.get("Path") if report.get("Enabled") else None,
        failure=str((found.get("FailureDetails") or {}).get("Message") or ""),
    )


def _seconds(moment: Any) -> float | None:  # noqa: ANN401 - a datetime of boto3, or nothing
    return None if moment is None else float(moment.timestamp())


@dataclass
class Tasks(ServiceJobs[Task, Mapping[str, Any]]):
    """The tasks of one file system. Every method raises GridwrightError."""

    service, noun = "AWS", "task"
    cloud: Cloud
    filesystem_id: str
    say: Callable[[str], None] = lambda _text: None
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    requests: int = field(default=0, init=False)
    asked: Mapping[str, Any] = field(default_factory=dict, init=False)
    """The request for a task that AWS did not refuse."""

    def all(self) -> Iterator[Task]:
        """All that AWS still knows of, those that were made last first."""
        names = [{"Name": "file-system-id", "Values": [self.filesystem_id]}]
        self.requests += 1
        found = self.cloud.listed(
            "fsx", "describe_data_repository_tasks", "DataRepositoryTasks", Filters=names
        )
        yield from sorted(map(task_of, found), key=lambda task: task.created, reverse=True)

    def _begin(self, request: Mapping[str, Any]) -> tuple[Task | None, str]:
        self.asked = {**request, "FileSystemId": self.filesystem_id}
        try:
            return self._made(), ""
        except CloudError as error:
            if error.code != BUSY:
                raise
            self.asked = {}
            return None, ""

    @property
    def _may_have_begun(self) -> bool:
        return bool(self.asked)

    def _made(self) -> Task:
        """The task that was asked for: by its token AWS makes it once, however often it is asked."""
        self.requests += 1
        made = self.cloud.call("fsx", "create_data_repository_task", **self.asked)
        return task_of(made["DataRepositoryTask"])

    def _look(self, job: Task) -> Task:
        self.requests += 1
        found = self.cloud.call("fsx", "describe_data_repository_tasks", TaskIds=[job.id])
        tasks = found.get("DataRepositoryTasks") or []
        if not tasks:
            raise environment_error(f"AWS knows nothing of task {job.id} any more")
        return task_of(tasks[0])

    def _cancel(self, request: Mapping[str, Any], job: Task | None) -> None:
        """Have AWS end it: what it did stays, and files under way are finished (CancelDataRepositoryTask)."""
        names = [job.id] if job else []

        def cancel() -> None:
            if not names:
                names.append(self._made().id)
            self.cloud.call("fsx", "cancel_data_repository_task", TaskId=names[0])

        if ordered(cancel):
            self.say(f"{names[0]}: cancelled; files that were done stay as they are")
        elif names:
            self.say(
                f"{names[0]}: AWS did not answer whether it is cancelled: "
                f"aws fsx cancel-data-repository-task --task-id {names[0]}"
            )
        else:
            self.say(
                f"AWS did not answer whether a task of {self.filesystem_id} began; "
                "gridwright repo status tells"
            )


_LOOK_BACK_MIN = 15
_WELL = "AVAILABLE"


@dataclass(slots=True, kw_only=True)
class LinkedStatus(LinkStatus):
    """How a repository stands that FSx carries; see LinkStatus."""

    noun = "task"
    association_id: str | None
    association: str
    """Its state, in AWS's own word; missing where there is none."""
    export: str
    """When files become objects: hourly, at-once, never."""
    under_way: list[Task] = field(default_factory=list)
    last_failed: Task | None = None
    """The last task that failed, where none of its kind went well since."""
    restore_requests: int = 0
    restore_usd: float = 0.0
    restore_s: float = 0.0
    restore_bound_by: str = ""

    def _never_exported(self) -> str | None:
        # A file system without changes has no age to report.
        return None if self.export == "at-once" else "no task of it has exported all of it"

    def _remedy(self) -> str:
        if self.export == "at-once":
            return f"Look why {self.filesystem_id} is behind; its association is {self.association}"
        return (
            f"Run gridwright repo export {self.repository}, and look why its schedule did not: its last "
            "tasks, and the alarm RepositoryTasks of the storage stack"
        )

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be mended."""
        return self.association == _WELL and self.finding is None and self.last_failed is None

    def text(self) -> str:
        """The result for people."""
        state = f"{self.association}{f': {self.why}' if self.why else ''}"
        jobs = [f"  under way: {each.kind} {each.id}, {each.progress} files" for each in self.under_way]
        if (task := self.last_failed) is not None:
            why = task.failure or f"{task.failed} of {task.total} files"
            jobs.append(f"  failed: {task.kind} {task.id} of {moment_text(task.created)}: {why}")
        connection = f"  association          {self.association_id or 'none'}, {state}"
        return self._text((connection, f"  export               {self.export}"), restore_text(self), jobs)


def last_export(tasks: Sequence[Task], below: str) -> float | None:
    """When the last export of all of a directory began that went well; tasks are the last made first."""
    found = [each.started or each.created for each in tasks if each.kind == EXPORT and _is_whole(each, below)]
    return max(found, default=None)


def _is_whole(task: Task, below: str) -> bool:
    return task.state == "SUCCEEDED" and not task.failed and _covers(task, below)


def _covers(task: Task, below: str) -> bool:
    paths = [each.strip("/") for each in task.paths]
    return not paths or any(not each or below == each or below.startswith(f"{each}/") for each in paths)


def _concerns(task: Task, below: str, bucket_url: str) -> bool:
    """Whether a task is about the directory, or a part of it."""
    if _covers(task, below) or not below:
        return True
    desired = (below, bucket_url)
    paths = [each.strip("/") for each in task.paths]
    return any(each == one or each.startswith(f"{one}/") for each in paths for one in desired)


def note_tasks(status: LinkedStatus, tasks: Sequence[Task], directory: LinkedDirectory) -> None:
    """Fill in what tasks tell; they are the last made first."""
    mine = [each for each in tasks if _concerns(each, directory.below, directory.link.bucket)]
    status.under_way = [each for each in mine if each.is_under_way]
    well: set[str] = set()
    for each in mine:
        if each.state == "FAILED" and each.kind not in well:
            status.last_failed = each
            break
        if each.state == "SUCCEEDED":
            well.add(each.kind)
    status.last_export = last_export(tasks, directory.below)
    if not directory.export.is_at_once and status.last_export is not None:
        status.unprotected_s = age_of(status.last_export)


def note_queue(status: LinkedStatus, cloud: Cloud) -> None:
    """Fill in how old the oldest change is that automatic export has not sent. Raises GridwrightError.

    It is of the whole file system (FSx for Lustre User Guide, S3 repository metrics).
    """
    end = datetime.now(UTC)
    found = cloud.call(
        "cloudwatch",
        "get_metric_statistics",
        Namespace="AWS/FSx",
        MetricName="AgeOfOldestQueuedMessage",
        Dimensions=[
            {"Name": "FileSystemId", "Value": status.filesystem_id},
            {"Name": "Publisher", "Value": "AutoExport"},
        ],
        StartTime=end - timedelta(minutes=_LOOK_BACK_MIN),
        EndTime=end,
        Period=60,
        Statistics=["Maximum"],
    )
    points = sorted(found.get("Datapoints") or [], key=lambda each: each["Timestamp"])
    if points:
        status.unprotected_s = float(points[-1]["Maximum"])


def note_objects(status: LinkedStatus, store: ObjectStore, back: Sequence[TransferLimit]) -> None:
    """Fill in what the bucket has below the prefix, and what a restore takes. Raises GridwrightError."""
    status.objects, status.object_bytes = count_objects(status.bucket_url, store)
    foresee_restore(status, service_restore(status.object_bytes, status.objects, back), back)


_TITLE = "filepath"


def failures_of(task: Task, store: ObjectStore) -> list[tuple[str, str]]:
    """File and reason of each that failed, from the report; what it does not tell is one line of its own."""
    if not task.failed and task.state != "FAILED":
        return []
    found: list[tuple[str, str]] = []
    if task.failed and task.report is not None:
        key = f"{task.report.removeprefix('s3://').partition('/')[2]}/{task.id}/failures.csv"
        try:
            found = read_failures(store.get(key.lstrip("/")))
        except StoreError as error:
            found = [(task.id, f"{task.failed} files failed, and its report: {error.problems[0].what}")]
        else:
            if len(found) < task.failed:
                lacking = task.failed - len(found)
                found.append((task.id, f"{lacking} more files failed, which its report does not name"))
    elif task.failed:
        found = [(task.id, f"{task.failed} files failed, and it made no report")]
    if task.failure or not found:
        found.append((task.id, task.failure or "it failed, and AWS does not say why"))
    return found


def read_failures(text: bytes) -> list[tuple[str, str]]:
    """File and reason of each line."""
    lines = io.StringIO(text.decode("utf-8-sig", "backslashreplace"), newline="")
    found = []
    for row in csv.reader(lines, skipinitialspace=True):
        cells = [each.strip() for each in row]
        if not cells or not cells[0] or cells[0].replace(" ", "").casefold() == _TITLE:
            continue
        why = ": ".join(each for each in cells[1:] if each) or "no reason is given"
        found.append((shown(cells[0]), shown(why)))
    return found


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
            repository=self.directory.name,
            bucket_url=self.directory.link.bucket,
            directory=self.directory.link.directory,
            filesystem=self.directory.filesystem,
            filesystem_id=self.filesystem_id,
            association_id=found.get("AssociationId"),
            association=str(found.get("Lifecycle") or "missing"),
            why=str((found.get("FailureDetails") or {}).get("Message") or ""),
            export=str(self.directory.export),
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
        if (changed := foresee_export(report, self.directory.mounted, since)) is not None:
            report.requests = {"put": changed}
