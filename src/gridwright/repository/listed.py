"""An object of a listing on its way to a file: what is said of it, and what was asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from gridwright.repository.comparing import FileSide
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import UNREADABLE, ObjectEntry, ObjectHead
from gridwright.units import format_bytes

FETCH = "fetch"
"""Work that an import of names leaves to that of contents."""
LINK = "link"
"""Work that is done when the first name of a file is here."""
NOTED = "in the bucket alone"
BOTH_CHANGED = (
    "both the file and its object were changed; neither was overwritten "
    "(--prefer objects takes the object, export --prefer files sends the file)"
)


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of the listing that is to be a file or a directory."""

    path: bytes
    is_directory: bool
    entry: ObjectEntry
    told: KnownFile | None
    """What the manifest says of it."""


def why_left(known: Known, listed: ListedObject) -> str | None:
    """Why an object stays in the bucket alone, whatever is here; None for one that can be a name here."""
    entry = listed.entry
    if entry.etag == UNREADABLE:
        return "what the store's listing says of its size or time makes no sense: nothing was done about it"
    if listed.is_directory and entry.size:
        return (
            f"its key ends in / and it has content ({format_bytes(entry.size)}), which no directory can "
            "have: it stays in the bucket; copy it there to a key without / at the end"
        )
    if not listed.is_directory and known.has_keys_below(entry.key):
        return "it is a file and a directory in the bucket, and can be one here: the file stays there"
    return None


def listed_objects(
    opened: OpenRepository, chosen: Sequence[bytes], report: RepositoryReport
) -> Iterator[ListedObject]:
    """Objects of the listing that are files, in the order of keys; others are named."""
    for values, told in opened.known.listed_and_told():
        entry = ObjectEntry(*values)
        if opened.keys.is_own(entry.key):
            continue
        is_root = entry.key == opened.keys.start
        try:
            path, is_directory = (b"", True) if is_root else opened.keys.path_of(entry.key)
        except KeyRefusal as refusal:
            report.problem(refusal.what, f"the key {refusal.reason}")
            continue
        listed = ListedObject(path, is_directory, entry, told)
        if not is_chosen(path, chosen):
            continue
        if reason := why_left(opened.known, listed):
            report.problem(path, reason)
        else:
            yield listed


@dataclass(slots=True)
class AskedObject:
    """An object whose attributes were asked for."""

    listed: ListedObject
    future: Future[ObjectHead]
    known: KnownFile | None = None
    """The row of the same content, where only attributes may be others."""
    side: FileSide = FileSide.ABSENT
    seen: os.stat_result | None = None
    """The status with which the file was found to be on this side."""
