"""The listing of a bucket: when it is made, and its objects on their way to files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice

from gridwright.repository.below import steps
from gridwright.repository.keys import KeyRefusal
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import NAMES
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
    "(gridwright repo export NAME --prefer files sends the file, gridwright repo import NAME --prefer "
    "objects takes the object)"
)
LISTED = "listed"
"""The fact of when all of the bucket was listed last."""
_LOOK_S, _FEW = 86_400.0, 100_000
"""Who exports by changelogs lists the bucket once a day, since that may be most of the work; more often where
that finds out whether names lost their only copies, of so few objects that it takes a hundred requests."""
_BATCH = 1000


def list_bucket(
    opened: OpenRepository, chosen: Sequence[bytes] = (), entries: Iterable[ObjectEntry] | None = None
) -> list[str]:
    """List the bucket, or what of it has the names that were chosen, for this run; how all keys of it begin.

    `entries` is a listing of all that has begun. Raises StoreError.
    """
    begun, known, starts = time.time(), opened.known, {opened.keys.start} if not chosen else set[str]()
    for path in chosen:
        with suppress(KeyRefusal):
            starts.add(opened.keys.key_of(path, is_directory=False))
    found = chain.from_iterable(map(opened.store.list, sorted(starts))) if entries is None else entries
    left = (each for each in found if not opened.keys.is_own(each.key))
    known.is_listed = True
    known.database.execute("DELETE FROM listed")
    while some := list(islice(left, _BATCH)):
        known.list_objects(
            (each.key, each.size, each.etag, each.last_modified_ns, each.storage_class) for each in some
        )
    if not chosen:
        known.set_fact(LISTED, repr(begun))
    return sorted(starts)


def is_listing_due(known: Known) -> bool:
    """Whether an export lists the bucket that learns by changelogs what to send."""
    is_long_ago = not 0 <= time.time() - (known.moment(LISTED) or 0.0) < _LOOK_S
    return is_long_ago or (known.count(NAMES)[0] > 0 and known.count()[0] <= _FEW)


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of the listing that is to be a file or a directory."""

    path: bytes
    is_directory: bool
    entry: ObjectEntry
    told: KnownFile | None
    """What the manifest says of it."""

    @property
    def is_in_manifest(self) -> bool:
        """Whether the manifest says it of this very object."""
        return self.told is not None and self.told.is_of(self.entry.etag, self.entry.last_modified_ns)

    def has_nothing_new(self, row: KnownFile) -> bool:
        """Whether an object is the one that a row knows, by its date and by the manifest."""
        is_known = row.is_of(self.entry.etag, self.entry.last_modified_ns)
        return is_known and not (self.is_in_manifest and row.was_given_others(self.told))


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
    for values, told in opened.known.listed_with_manifest():
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


def listed_parents(opened: OpenRepository, chosen: Sequence[bytes]) -> Iterator[ListedObject]:
    """Objects of the listing that are directories around those that were chosen."""
    around = {step for each in chosen for step in steps(each.rpartition(b"/")[0])}
    for path in sorted(around - {b""}):
        with suppress(KeyRefusal):
            key = opened.keys.key_of(path, is_directory=True)
            if (found := opened.known.listed(key)) is not None:
                listed = ListedObject(path, True, ObjectEntry(key, *found), opened.known.manifest_row(key))
                if why_left(opened.known, listed) is None:
                    yield listed


@dataclass(slots=True)
class PendingObject:
    """An object whose attributes were asked for."""

    listed: ListedObject
    future: Future[ObjectHead]
    known: KnownFile | None = None
    """The row of the same content, where only attributes may be others."""
    is_new: bool = True
    """False of a directory that was here."""
