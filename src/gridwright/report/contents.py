"""The contents of a page: links to its parts, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContentsEntry:
    """A part of the page, and the id of its heading."""

    title: str
    anchor: str


def contents_of(entries: Iterable[ContentsEntry | None]) -> tuple[ContentsEntry, ...]:
    """The entries that are there; none for a page of a single part, where nobody looks for another."""
    found = tuple(entry for entry in entries if entry is not None)
    return found if len(found) > 1 else ()
