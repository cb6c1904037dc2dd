"""Searches places on a node that mounts them for files that lie otherwise than wanted, and prints them."""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.filesystems.layout import FileLayout, FilePlacement, misplaced_bytes
from gridwright.filesystems.lustre_client.attribute import (
    ATTRIBUTES,
    Scanned,
    SeenFile,
    Unread,
    list_files,
    was_appended,
)
from gridwright.messages import decode, encode

MOST = 20_000
"""Files that are told, the largest: what moving them takes is days, and the next search finds the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOrder:
    """What is searched for."""

    wanted: FileLayout
    targets: int
    """How many there are."""
    full: list[int]
    """Indices of targets that are too full."""
    at_least_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """What was found."""

    looked_at: int
    misplaced: list[FilePlacement] = field(default_factory=list)
    on_full: list[FilePlacement] = field(default_factory=list)
    """Files that lie as they should, on targets that are too full."""
    more: int = 0
    """Files beyond MOST that are not told."""
    without_layout: int = 0
    is_blind: bool = False
    """Whether there are files, and none of whatever size has the attribute."""
    unread: int = 0
    unread_named: list[Unread] = field(default_factory=list)
    complete: bool = True


class _Largest:
    """The largest files of those that are put in."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, FilePlacement]] = []
        self.more = 0
        self._number = 0

    def put(self, file: FilePlacement) -> None:
        self._number += 1
        row = (file.size_bytes, -self._number, file)
        if len(self._heap) < MOST:
            heapq.heappush(self._heap, row)
        else:
            heapq.heappushpop(self._heap, row)
            self.more += 1

    def files(self) -> list[FilePlacement]:
        return [file for _, _, file in sorted(self._heap, key=lambda row: row[:2], reverse=True)]


def search(
    places: Sequence[str], order: SearchOrder, *, seconds: float, attributes: Sequence[str] = ATTRIBUTES
) -> SearchAnswer:
    """Look at all files below places, and these files themselves."""
    misplaced, on_full, named = _Largest(), _Largest(), set(places)
    looked_at, full = 0, frozenset(order.full)
    listing = list_files(
        [Path(each) for each in places],
        at_least_bytes=order.at_least_bytes,
        seconds=seconds,
        attributes=attributes,
    )
    while True:
        try:
            seen = next(listing)
        except StopIteration as end:
            rest: Scanned = end.value
            break
        if seen.layout.layout is None:
            continue
        looked_at += 1
        file = _placement_of(seen, seen.layout.layout, named)
        if file.size_bytes < order.at_least_bytes:
            continue
        if 2 * misplaced_bytes(file, order.wanted, order.targets) > file.size_bytes:
            misplaced.put(file)
        elif file.kept is None and any(full & set(part.osts) for part in file.layout.components):
            on_full.put(file)
    return SearchAnswer(
        looked_at=looked_at,
        misplaced=misplaced.files(),
        on_full=on_full.files(),
        more=misplaced.more + on_full.more,
        without_layout=rest.without_layout.files,
        is_blind=0 < rest.files.files == rest.without_layout.files,
        unread=rest.unread + len(rest.hanging),
        unread_named=[*rest.unread_named, *(Unread(each, "it hangs") for each in rest.hanging)],
        complete=rest.complete,
    )


def _placement_of(seen: SeenFile, layout: FileLayout, named: Collection[str]) -> FilePlacement:
    # A released file takes no room here, and is told with its length.
    released = any(part.released for part in seen.layout.components)
    size = seen.size_bytes if released else min(seen.size_bytes, seen.allocated_bytes)
    return FilePlacement(seen.path, size, layout, _why_skipped(seen, named), seen.size_bytes)


def _why_skipped(seen: SeenFile, named: Collection[str]) -> str | None:
    layout = seen.layout.layout
    if any(part.released for part in seen.layout.components):
        return "its bytes are in the archive"
    if layout is not None and layout.mirrors > 1:
        return "it has mirrors"
    # Who names such a file wants it moved.
    if layout is not None and was_appended(seen, layout) and seen.path not in named:
        return "it grew by appending, which gives one stripe whatever is wanted"
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("order", help="as JSON")
    parser.add_argument("places", nargs="+")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--attribute", action="append")
    chosen = parser.parse_args(arguments)
    order = decode(chosen.order, SearchOrder)
    found = search(chosen.places, order, seconds=chosen.seconds, attributes=chosen.attribute or ATTRIBUTES)
    sys.stdout.buffer.write(encode(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
