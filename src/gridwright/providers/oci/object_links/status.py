"""How a repository stands that managed Lustre carries: its link, jobs, and what is in the bucket."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.object_links.jobs import EXPORT, LinkJob
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.keys import Keys, prefix_of
from gridwright.repository.status import RECOVERY_POINT_MISSED
from gridwright.repository.store import ReadableStore
from gridwright.units import format_bytes

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


@dataclass(slots=True)
class OciLinkStatus:
    """What is known without looking at files. Sizes are bytes, times seconds since 1970."""

    repository: str
    bucket_url: str
    directory: str
    filesystem: str
    filesystem_id: str
    link_id: str | None
    link: str
    """Its state, in Oracle's own word; missing where there is none."""
    why: str
    """What OCI says of a state that is not well."""
    overwrite: bool
    objects: int = 0
    object_bytes: int = 0
    last_export: float | None = None
    """When the last export began that copied all it found."""
    unprotected_s: float | None = None
    """How old a change may be that no object has, at most: the achieved recovery point."""
    required_s: float | None = None
    under_way: list[LinkJob] = field(default_factory=list)
    last_failed: LinkJob | None = None
    """The last job that failed or left something, where none of its kind went well since."""
    not_carried: list[str] = field(default_factory=list)
    restore_s: float | None = None
    """What a full restore takes at least; None where nothing is known."""
    restore_bound_by: str = ""

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""
        if self.required_s is None:
            return None
        if self.unprotected_s is not None and self.unprotected_s <= self.required_s:
            return None
        now = (
            "no job has exported all of it"
            if self.unprotected_s is None
            else f"the oldest change that may have none is {self.unprotected_s:.0f} s old"
        )
        return Finding(
            "warning",
            RECOVERY_POINT_MISSED,
            f"repository {self.repository}: no change may be older than {self.required_s:.0f} s without an "
            f"object, and {now}",
            f"Run gridwright repo export {self.repository}, and have cron run it: nothing else does",
        )

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be mended."""
        return self.link == WELL and self.finding is None and self.last_failed is None

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        finding = self.finding
        return asdict(self) | {"finding": None if finding is None else asdict(finding)}

    def text(self) -> str:
        """The result for people."""
        when = "never" if self.last_export is None else _moment(self.last_export)
        point = "unknown" if self.unprotected_s is None else f"{self.unprotected_s:.0f} s"
        wanted = "" if self.required_s is None else f", and {self.required_s:.0f} s at most is required"
        restore = (
            "unknown"
            if self.restore_s is None
            else f"at least {self.restore_s:.1f} s, bound by {self.restore_bound_by}"
        )
        state = f"{self.link}: {self.why}" if self.why else self.link
        lines = [
            f"{self.repository}: {self.directory} of {self.filesystem} ({self.filesystem_id}) and "
            f"{self.bucket_url}",
            f"  link                 {self.link_id or 'none'}, {state}",
            f"  objects              {self.objects} ({format_bytes(self.object_bytes)})",
            f"  last whole export    {when}, by a job",
            f"  oldest change that may have no object: {point}{wanted}",
            f"  full restore: {restore}; Oracle does not say how fast jobs are",
        ]
        lines += [f"  under way: {_described(each)}" for each in self.under_way]
        if self.last_failed is not None:
            lines.append(f"  failed: {_described(self.last_failed)}")
        lines += [f"  not copied: {each}" for each in self.not_carried]
        if self.finding is not None:
            lines += [f"  {line}" for line in str(self.finding).splitlines()]
        return "\n".join(lines)


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
        status.unprotected_s = max(0.0, time.time() - max(covering))


def note_objects(status: OciLinkStatus, store: ReadableStore, back: Sequence[TransferLimit]) -> None:
    """Fill in what the bucket has below the prefix, and what a restore takes. Raises GridwrightError."""
    status.objects, status.object_bytes = count_objects(status.bucket_url, store)
    slowest = min(back, key=lambda limit: limit.bytes_per_s, default=None)
    if slowest is not None:
        status.restore_s, status.restore_bound_by = (
            status.object_bytes / slowest.bytes_per_s,
            slowest.what,
        )


def count_objects(bucket_url: str, store: ReadableStore) -> tuple[int, int]:
    """Objects below the prefix that are files', and their bytes. Raises GridwrightError."""
    keys = Keys(prefix_of(bucket_url))
    count = size = 0
    for entry in store.list(keys.start):
        if not keys.is_own(entry.key):
            count += 1
            size += entry.size
    return count, size


def not_carried(*, overwrite: bool) -> list[str]:
    """What jobs of a link do not copy."""
    return [*NOT_CARRIED, *(() if overwrite else (PASSED_OVER,))]


def _described(job: LinkJob) -> str:
    began = "" if job.started is None else f" of {_moment(job.started)}"
    files = f"{job.transferred} of {job.scanned} files" + (f", {job.failed} failed" if job.failed else "")
    return f"{job.kind} {job.id}{began}, {job.state}: {job.why or files}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
