"""How files and objects of a repository stand: how many, how many differ on which side, and since when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from gridwright.errors import Finding
from gridwright.repository.below import at
from gridwright.repository.changelog.standing import ChangelogStanding, standing_of
from gridwright.repository.comparing import has_attributes
from gridwright.repository.contents import CONTENTS
from gridwright.repository.counted_names import CountedNames, told_failed
from gridwright.repository.deletion_limit import refusals
from gridwright.repository.forecast import TransferForecast, TransferLimit, restore_forecast
from gridwright.repository.knowledge import keep_listing, learn
from gridwright.repository.known_file import KnownFile
from gridwright.repository.lost_names import LOST, look_for_lost, lost_names
from gridwright.repository.rates import best_limits
from gridwright.repository.references import StateError, read_state
from gridwright.repository.scan import Action, find_changes
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import StoreError
from gridwright.repository.trash import trashed
from gridwright.units import format_bytes

RECOVERY_POINT_MISSED = "recovery-point-missed"
"""The finding that changes are older than they may be without an object."""


_FOUND = "EXISTS (SELECT 1 FROM seen WHERE seen.path = files.path)"
"""Rows of what the scan of this run has found."""
_LATE_NS = 10 * 10**9
"""A busy server renews the Date of its answers so late: objects as young as that are asked for."""


@dataclass(slots=True)
class RepositoryStatus:
    """What is where. Sizes are bytes, times seconds since 1970."""

    repository: str
    bucket_url: str
    directory: str
    objects: int = 0
    object_bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    names_only: int = 0
    names_only_bytes: int = 0
    lost_names: int = 0
    """Names only whose objects are gone, too."""
    lost_bytes: int = 0
    changed_files: int = 0
    """New or changed since they were exported."""
    changed_bytes: int = 0
    gone_files: int = 0
    """Whose objects are still there."""
    changed_objects: int = 0
    """New or changed since they were exported or imported."""
    gone_objects: int = 0
    last_export: float | None = None
    """When the last whole export began."""
    unprotected_s: float | None = None
    """How old the oldest change may be that no object has, the achieved recovery point; 0 for none."""
    required_s: float | None = None
    """How old that may be; None where nothing is required."""
    changelogs: list[ChangelogStanding] = field(default_factory=list)
    """Of each MDT, where changes are found by changelogs."""
    changelog_trouble: str = ""
    """Why changelogs cannot be read, and exports scan; empty where they can."""
    restore_requests: int = 0
    restore_usd: float = 0.0
    """Requests of a full restore at list prices, without traffic."""
    restore_s: float = 0.0
    """Seconds of a full restore at least."""
    restore_bound_by: str = ""
    refused: list[str] = field(default_factory=list)
    """Deletions that the last export or the last import has refused."""
    nameless: CountedNames = field(default_factory=CountedNames)
    """Files that no object can be made of: the recovery point is that of all others."""
    left_behind: str = ""
    """What the last export of all could not send, and where most of it lies; empty for nothing."""
    failed: CountedNames = field(default_factory=CountedNames)
    notes: list[str] = field(default_factory=list)
    """What lies aside since a release was killed, and what is never exported."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is missed, refused or lost."""
        return self.finding is None and not self.refused and not self.lost_names

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""
        if self.required_s is None or not self.changed_files:
            return None
        if self.unprotected_s is not None and self.unprotected_s <= self.required_s:
            return None
        now = (
            "nothing was ever exported" if self.unprotected_s is None else f"it is {self.unprotected_s:.0f} s"
        )
        return Finding(
            "warning",
            RECOVERY_POINT_MISSED,
            f"repository {self.repository}: no change may be older than {self.required_s:.0f} s without an "
            f"object, and {now}; {self.changed_files} files and directories differ"
            + (f"; {self.left_behind}" if self.left_behind else ""),
            f"Run gridwright repo export {self.repository}, and look why its timer did not: "
            f"journalctl -u gridwright-export-{self.repository}",
        )

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        finding = self.finding
        names = [name for name in self.__slots__ if name not in ("failed", "nameless", "changelogs")]
        return {name: getattr(self, name) for name in names} | {
            "changelogs": [asdict(each) for each in self.changelogs],
            "finding": None if finding is None else asdict(finding),
            "problems": self.failed.document(),
            "failed": self.failed.counts(),
            "nameless": self.nameless.counts() | {"first": self.nameless.document()},
        }

    def text(self) -> str:
        """The result for people."""
        when = "never"
        if self.last_export is not None:
            when = datetime.fromtimestamp(self.last_export, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        besides = f", but for {self.nameless.words} that no object can have" * bool(self.nameless.count)
        wanted = "" if self.required_s is None else f", and {self.required_s:.0f} s at most is required"
        point = "unknown" if self.unprotected_s is None else f"{self.unprotected_s:.0f} s"
        lines = [
            f"{self.repository}: {self.directory} and {self.bucket_url}",
            f"  objects              {self.objects} ({format_bytes(self.object_bytes)})",
            f"  files                {self.files} ({format_bytes(self.file_bytes)})",
            f"  names only           {self.names_only} ({format_bytes(self.names_only_bytes)} in the bucket)",
            f"  changed files        {self.changed_files} ({format_bytes(self.changed_bytes)} to export)",
            f"  files gone           {self.gone_files}, whose objects are there",
            f"  changed objects      {self.changed_objects}",
            f"  objects gone         {self.gone_objects}, whose files are there",
            f"  last whole export    {when}{besides}",
            f"  oldest change that no object has: {point}{wanted}",
            f"  full restore: {restore_text(self)}",
        ]
        if self.lost_names:
            lines.insert(4, f"  only copies gone     {self.lost_names} ({format_bytes(self.lost_bytes)})")
        lines += [f"  changelog of {each.text()}" for each in self.changelogs]
        if self.changelog_trouble:
            lines.append(f"  exports look at all files: {self.changelog_trouble}")
        lines += [f"  {each}" for each in self.refused]
        if self.left_behind:
            lines.append(f"  {self.left_behind}")
        lines += [f"  {each}" for each in self.failed.lines()]
        lines += [f"  {note}" for note in self.notes]
        if self.finding is not None:
            lines.append(f"  {self.finding}")
        return "\n".join(lines)


class Restorable(Protocol):
    """What is known of a full restore."""

    restore_requests: int
    restore_usd: float
    restore_s: float
    restore_bound_by: str
    objects: int
    object_bytes: int


def restore_text(status: Restorable) -> str:
    """A full restore in one line."""
    seconds = f"{status.restore_s:.0f}" if status.restore_s >= 10 else f"{status.restore_s:.1f}"
    return (
        f"at least {seconds} s, bound by {status.restore_bound_by}; {status.restore_requests} requests, "
        f"{status.restore_usd:.2f} USD, and traffic"
    )


def foresee_restore(status: Restorable, found: TransferForecast, back: Sequence[TransferLimit]) -> None:
    """Fill in what a full restore takes, as `predict --repository` has it."""
    status.restore_s, status.restore_bound_by = found.seconds, found.bound_by
    if not back:
        status.restore_bound_by += "; how fast bytes come is not known yet"
    status.restore_requests = sum((found.requests or {}).values())
    status.restore_usd = found.requests_usd or 0.0


def repository_status(opened: OpenRepository, back: Sequence[TransferLimit] = ()) -> RepositoryStatus:
    """Look at both sides: one scan of the files, one listing of the bucket. Raises GridwrightError.

    `back` limits a transfer from the store to the files; so does the best rate so far.
    """
    settings, known = opened.settings, opened.known
    status = RepositoryStatus(
        settings.name, settings.bucket_url, str(settings.directory), required_s=settings.rpo_s
    )
    if settings.changelog is not None:
        status.changelogs, status.changelog_trouble = standing_of(opened, settings.changelog)
    report = RepositoryReport(settings.name, "status")
    learn(opened, report)
    work = find_changes(opened, (), report, deletions=True)
    status.failed, status.nameless = report.failed, report.nameless
    status.left_behind = told_failed(known)
    status.refused = [f"the {what} refused: {why}" for what, why in refusals(known.fact)]
    work.pop(Action.DELETE, None)
    if Action.COMPARE in work:
        work[Action.COMPARE] = _touched(opened)
    status.changed_files = sum(count for count, _ in work.values())
    status.changed_bytes = work.get(Action.SEND, (0, 0))[1]
    status.files, status.file_bytes = known.count(f"mode & 61440 = 32768 AND (inode <> 0 OR {_FOUND})")
    if unread := known.count(f"mode & 61440 = 32768 AND inode = 0 AND {_FOUND}")[0]:
        report.notes.append(
            f"{unread} of the files are known by the bucket's manifest alone, as on a new machine or where "
            "the state was lost: gridwright repo export compares them"
        )
    elif known.is_empty() and status.changed_files:
        report.notes.append(
            "nothing is known here yet of files or objects: gridwright repo export compares them"
        )
    _count_objects(opened, status)
    _count_names(opened, status, report)
    limits = [*back, *best_limits(known, CONTENTS)]
    foresee_restore(status, restore_forecast(status.object_bytes, status.objects, limits), limits)
    status.last_export = known.moment("exported")
    if status.last_export is not None:
        status.unprotected_s = time.time() - status.last_export if status.changed_files else 0.0
    status.notes = [*report.all_notes, *(f"trash: {each.text()}" for each in trashed(opened.below.root))]
    return status


def _count_names(opened: OpenRepository, status: RepositoryStatus, report: RepositoryReport) -> None:
    """Count names only, without those whose objects are gone, too, which are named."""
    look_for_lost(opened)
    for row in lost_names(opened):
        status.lost_names, status.lost_bytes = status.lost_names + 1, status.lost_bytes + row.size
        report.note_of(f"have no copy any more: {LOST}", row.path)
    count, size = opened.known.count(f"is_name_only <> 0 AND NOT (inode = 0 AND {_FOUND})")
    status.names_only, status.names_only_bytes = count - status.lost_names, size - status.lost_bytes


def _touched(opened: OpenRepository) -> tuple[int, int]:
    """Files that were touched, without those that somebody has only loaded; how many, and their bytes.

    Who writes to a file and sets its time back is seen by the export alone, which reads it.
    """
    found = [
        size
        for path, action, size, _ in opened.known.work()
        if action == Action.COMPARE and not _is_loaded(opened, path)
    ]
    return len(found), sum(found)


def _is_loaded(opened: OpenRepository, path: bytes) -> bool:
    row = opened.known.get(path)
    try:
        status = opened.below.status(path)
        if row is None or status is None:
            return False
        if not row.inode:
            # Another machine has exported it: size and time are the same, and no more is known here.
            return True
        directory, name = opened.below.parent(path)
        state = read_state(at(directory, name))
    except (OSError, StateError):
        return False
    return state is not None and state.is_of(row.etag, status)


def _is_of_late_date(opened: OpenRepository, row: KnownFile, etag: str, modified_ns: int) -> bool:
    """Whether an object is the known one, and the answer to its upload had a Date that was made before."""
    if row.etag != etag or modified_ns - row.stored_ns > _LATE_NS:
        return False
    with suppress(StoreError):
        return has_attributes(opened.store.head(row.key or "").result(), row.attributes)
    return False


def _count_objects(opened: OpenRepository, status: RepositoryStatus) -> None:
    known, keys = opened.known, opened.keys
    keep_listing(known, (each for each in opened.store.list(keys.start) if not keys.is_own(each.key)))
    query = "SELECT count(*), coalesce(sum(size), 0) FROM listed"
    status.objects, status.object_bytes = known.database.execute(query).fetchone()
    for key, _, etag, modified_ns, _ in known.all_listed():
        row = known.by_key(key)
        # Stores on a file system (versitygw) give a directory a new date with each object below it.
        since_ns = 0 if key.endswith("/") else modified_ns
        is_known = row is not None and (
            row.is_of(etag, since_ns) or _is_of_late_date(opened, row, etag, modified_ns)
        )
        if not is_known:
            status.changed_objects += 1
    # What is gone on both sides, as after an export of another machine, is nothing to be done.
    status.gone_files = sum(
        action == Action.DELETE and (row is None or known.listed(row.key or "") is not None)
        for _, action, row in known.work_with_rows()
    )
    status.gone_objects = sum(
        known.listed(row.key or "") is None and known.was_seen(row.path)
        for row in known.rows("key IS NOT NULL")
    )
