"""What a repository has: each object with its size, its time, and whether its content is here."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gridwright.repository.file_clock import is_stored_as
from gridwright.repository.gone import (
    gone_names,
    look_for_lost,
    lost_names,
    name_lost,
    name_without_object,
)
from gridwright.repository.keys import KeyRefusal, shown
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import list_bucket
from gridwright.repository.manifest_sync import learn
from gridwright.repository.scan import name_unknown
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import ObjectEntry


class EntryPlace(StrEnum):
    """Where the content of an object is."""

    HERE = "here"
    BUCKET = "bucket"
    """In the bucket alone: no file is here, or a released one."""
    CHANGED = "changed"
    """A file is here, and is not known to be what its object is."""
    GONE = "gone"
    """Nowhere: it was in the bucket alone, and its object is gone."""


@dataclass(frozen=True, slots=True)
class RepositoryEntry:
    """One object."""

    path: bytes
    """Below the repository's directory; a directory ends in `/`."""
    size: int
    """Bytes."""
    mtime_ns: int
    """That of the file since 1970, or of the object where nothing tells the file's."""
    place: EntryPlace

    def document(self) -> dict[str, Any]:
        """For programs: the path as an argument has it, where bytes that are no UTF-8 are lone surrogates."""
        return {
            "path": os.fsdecode(self.path),
            "size": self.size,
            "mtime": self.mtime_ns / 1e9,
            "place": self.place.value,
        }

    def text(self) -> str:
        """For people, one line."""
        when = datetime.fromtimestamp(self.mtime_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"{self.size:>15}  {when}  {self.place.value:<7}  {shown(self.path)}"


def list_entries(
    opened: OpenRepository, paths: Sequence[bytes], report: RepositoryReport
) -> Iterator[RepositoryEntry]:
    """Entries in the order of keys, by the bucket's listing and manifest as they are now; then lost names.

    Problems of the report are keys that can be no files, files that cannot be looked at, files whose objects
    are gone, and chosen paths that have none. Raises GridwrightError where the store does not answer.
    """
    known, keys = opened.known, opened.keys
    learn(opened, report)
    list_bucket(opened)
    name_unknown(opened, report, paths)
    told = {name for name, _ in report.failed.first}
    unsaid = [each for each in paths if shown(each) not in told]
    for values in known.all_listed():
        entry = ObjectEntry(*values)
        if keys.is_own(entry.key) or entry.key == keys.start:
            continue
        try:
            path, is_directory = keys.path_of(entry.key)
        except KeyRefusal as refusal:
            report.problem(refusal.what, f"the key {refusal.reason}")
            continue
        if not is_chosen(path, paths):
            continue
        unsaid = _without(unsaid, path)
        try:
            yield _entry(opened, path, entry, is_directory=is_directory)
        except OSError as error:
            report.refused(path, "looked at", error)
    look_for_lost(opened)
    for row in lost_names(opened, paths):
        yield RepositoryEntry(row.path, row.size, row.mtime_ns, EntryPlace.GONE)
    name_lost(opened, report, paths)
    gone = [row.path for row in gone_names(opened, paths)]
    for path in (*gone, *name_without_object(opened, report, paths)):
        unsaid = _without(unsaid, path)
    for path in unsaid:
        found = known.get(path)
        if found is None or not found.attributes.is_directory:  # Some stores keep no objects of directories.
            report.problem(path, "the bucket has no object of it, nor is one known that is gone")


def _without(paths: list[bytes], path: bytes) -> list[bytes]:
    """Chosen paths without those that a path is, or lies below."""
    return [each for each in paths if not is_chosen(path, [each])]


def _entry(opened: OpenRepository, path: bytes, entry: ObjectEntry, *, is_directory: bool) -> RepositoryEntry:
    row = opened.known.get(path)
    if row is not None and not row.is_of(entry.etag, entry.last_modified_ns):
        row = None
    place = _place(opened.below.status(path), row, is_directory=is_directory)
    mtime_ns = entry.last_modified_ns if row is None else row.mtime_ns
    return RepositoryEntry(path + b"/" if is_directory else path, entry.size, mtime_ns, place)


def _place(status: os.stat_result | None, row: KnownFile | None, *, is_directory: bool) -> EntryPlace:
    if status is None:
        return EntryPlace.BUCKET
    if is_directory:
        return EntryPlace.HERE if stat.S_ISDIR(status.st_mode) else EntryPlace.CHANGED
    is_same = (
        row is not None
        and stat.S_IFMT(row.mode) == stat.S_IFMT(status.st_mode)
        and row.size == status.st_size
        and is_stored_as(row.mtime_ns, status.st_mtime_ns)
    )
    if not is_same:
        return EntryPlace.CHANGED
    return EntryPlace.BUCKET if row is not None and row.is_name_only and row.inode else EntryPlace.HERE
