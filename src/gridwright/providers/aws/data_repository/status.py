"""How a repository stands that FSx for Lustre carries: association, tasks, and what is in the bucket."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.aws.data_repository.requests import EXPORT
from gridwright.providers.aws.data_repository.tasks import Task
from gridwright.providers.aws.session import Cloud
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.keys import Keys, prefix_of
from gridwright.repository.service_forecast import service_restore
from gridwright.repository.status import RECOVERY_POINT_MISSED, foresee_restore, restore_text
from gridwright.repository.store import ObjectStore
from gridwright.spec.linked import LinkedDirectory
from gridwright.units import format_bytes

_LOOK_BACK_MIN = 15
_WELL = "AVAILABLE"


@dataclass(slots=True)
class LinkedStatus:
    """What is known without looking at files. Sizes are bytes, times seconds since 1970."""

    repository: str
    bucket_url: str
    directory: str
    filesystem: str
    filesystem_id: str
    association_id: str | None
    association: str
    """Its state, in AWS's own word; missing where there is none."""
    why: str
    """What AWS says of a state that is not well."""
    export: str
    """When files become objects: hourly, at-once, never."""
    objects: int = 0
    object_bytes: int = 0
    last_export: float | None = None
    """When the last whole export by a task began."""
    unprotected_s: float | None = None
    """How old a change may be that no object has, at most: the achieved recovery point."""
    required_s: float | None = None
    under_way: list[Task] = field(default_factory=list)
    last_failed: Task | None = None
    """The last task that failed, where none of its kind went well since."""
    restore_requests: int = 0
    restore_usd: float = 0.0
    restore_s: float = 0.0
    restore_bound_by: str = ""

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""
        if self.required_s is None:
            return None
        if self.unprotected_s is None and self.export == "at-once":
            # A file system without changes tells of no age.
            return None
        if self.unprotected_s is not None and self.unprotected_s <= self.required_s:
            return None
        now = (
            "no task of it has exported all of it"
            if self.unprotected_s is None
            else f"the oldest change that may have none is {self.unprotected_s:.0f} s old"
        )
        return Finding(
            "warning",
            RECOVERY_POINT_MISSED,
            f"repository {self.repository}: no change may be older than {self.required_s:.0f} s without an "
            f"object, and {now}",
            self._remedy(),
        )

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

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        finding = self.finding
        return asdict(self) | {"finding": None if finding is None else asdict(finding)}

    def text(self) -> str:
        """The result for people."""
        when = "never" if self.last_export is None else _moment(self.last_export)
        point = "unknown" if self.unprotected_s is None else f"{self.unprotected_s:.0f} s"
        wanted = "" if self.required_s is None else f", and {self.required_s:.0f} s at most is required"
        state = f"{self.association}{f': {self.why}' if self.why else ''}"
        lines = [
            f"{self.repository}: {self.directory} of {self.filesystem} ({self.filesystem_id}) and "
            f"{self.bucket_url}",
            f"  association          {self.association_id or 'none'}, {state}",
            f"  objects              {self.objects} ({format_bytes(self.object_bytes)})",
            f"  export               {self.export}",
            f"  last whole export    {when}, by a task",
            f"  oldest change that may have no object: {point}{wanted}",
            f"  full restore: {restore_text(self)}",
        ]
        lines += [
            f"  under way: {each.kind} {each.id}, {each.succeeded + each.failed} of {each.total} files"
            for each in self.under_way
        ]
        if self.last_failed is not None:
            task = self.last_failed
            why = task.failure or f"{task.failed} of {task.total} files"
            lines.append(f"  failed: {task.kind} {task.id} of {_moment(task.created)}: {why}")
        if self.finding is not None:
            lines += [f"  {line}" for line in str(self.finding).splitlines()]
        return "\n".join(lines)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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
    wanted = (below, bucket_url)
    paths = [each.strip("/") for each in task.paths]
    return any(each == one or each.startswith(f"{one}/") for each in paths for one in wanted)


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
        status.unprotected_s = max(0.0, time.time() - status.last_export)


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
    keys = Keys(prefix_of(status.bucket_url))
    for entry in store.list(keys.start):
        if not keys.is_own(entry.key):
            status.objects += 1
            status.object_bytes += entry.size
    foresee_restore(status, service_restore(status.object_bytes, status.objects, back), back)
