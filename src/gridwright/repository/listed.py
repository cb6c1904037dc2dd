"""An object of a listing on its way to a file: what is said of it, and what was asked."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from gridwright.repository.comparing import FileSide
from gridwright.repository.known_file import KnownFile
from gridwright.repository.store import ObjectEntry, ObjectHead

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


@dataclass(slots=True)
class AskedObject:
    """An object whose attributes were asked for."""

    listed: ListedObject
    future: Future[ObjectHead]
    known: KnownFile | None = None
    """The row of the same content, where only attributes may be others."""
    side: FileSide = FileSide.ABSENT
