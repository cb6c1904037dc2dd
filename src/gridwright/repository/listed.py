"""An object of a listing on its way to a file: what is said of it, and what was asked."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from gridwright.repository.comparing import FileSide
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.store import ObjectEntry, ObjectHead
from gridwright.units import format_bytes


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
    if listed.is_directory and entry.size:
        return (
            f"its key ends in / and it has content ({format_bytes(entry.size)}), which no directory can "
            "have: it stays in the bucket; copy it there to a key without / at the end"
        )
    if not listed.is_directory and known.has_keys_below(entry.key):
        return "it is a file and a directory in the bucket, and can be one here: the file stays there"
    return None


@dataclass(slots=True)
class AskedObject:
    """An object whose attributes were asked for."""

    listed: ListedObject
    future: Future[ObjectHead]
    known: KnownFile | None = None
    """The row of the same content, where only attributes may be others."""
    side: FileSide = FileSide.ABSENT
