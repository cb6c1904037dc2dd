"""Files that are laid out anew: what a kind of file system finds of them, and how it moves one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from gridwright.filesystems.layout import ALL, Component, FileLayout

MoveState = Literal["moved", "busy", "gone", "failed"]
"""busy: somebody has the file open, or opened it meanwhile; it stays as it was, as it does if it failed."""


@dataclass(frozen=True, slots=True)
class FilePlacement:
    """A file and where it lies."""

    path: str
    size_bytes: int
    """What of it takes room: of a sparse file not its holes."""
    layout: FileLayout
    kept: str | None = None
    """Why it has to be left alone, such as that it is archived; None where it may be moved."""
    length_bytes: int = 0
    """How far it reaches, for time limits: servers that compress have more bytes to move than take room."""

    @property
    def longest_bytes(self) -> int:
        """What moving it may take at most."""
        return max(self.size_bytes, self.length_bytes)


@dataclass(frozen=True, slots=True)
class Move:
    """What became of a file that was to be moved."""

    state: MoveState
    why: str = ""


@dataclass(slots=True)
class FileSearch:
    """What a search found."""

    looked_at: int = 0
    misplaced: list[FilePlacement] = field(default_factory=list)
    """More than half of their bytes lie otherwise than wanted; some may have to be left alone."""
    on_full: list[FilePlacement] = field(default_factory=list)
    """They lie as they should, on targets that are too full."""
    more: int = 0
    """Smaller files that the next search will find: there are too many for one."""
    unread: int = 0
    """Files and directories that could not be looked at."""


class FileMover(Protocol):
    """Finds files by their layouts, and lays one out anew without anybody noticing.

    Failure contract. All end in bounded time. What is not told of a file leaves it out. `search` and
    `targets` raise GridwrightError (status ENVIRONMENT) where nothing answers; `move` never changes what a
    file holds: it has the new layout, or the old one whatever happened.
    """

    def targets(self) -> int:
        """Over how many targets a file can lie."""

    def excess(self) -> Mapping[int, int]:
        """Bytes that targets hold beyond their share, by index; only of those that are fuller by far."""

    def search(
        self,
        places: Sequence[str],
        at_least_bytes: int,
        desired: FileLayout,
        full: Collection[int],
        *,
        may_be_gone: bool = False,
    ) -> FileSearch:
        """Files of a size that lie otherwise than wanted, below these directories, or named themselves.

        `full` are targets from which others are to be taken, too. Where places `may_be_gone`, as files that
        an earlier search has found, it is no error that there is nothing any more.
        """

    def move(self, file: FilePlacement, layout: FileLayout, bytes_per_s: float) -> Move:
        """Lay a file out anew, at no more than a rate in bytes/s."""


def relieving(files: Sequence[FilePlacement], excess: Mapping[int, int], targets: int) -> list[FilePlacement]:
    """Files whose move takes from targets what they hold beyond their share, the largest first.

    What lies on all targets takes nothing from any. A file counts for each target with its bytes by the
    number of targets that it lies on.
    """
    left = dict(excess)
    chosen: list[FilePlacement] = []
    for file in sorted(files, key=lambda each: -each.size_bytes):
        osts = {index for component in file.layout.components for index in component.osts}
        full = [index for index in osts if left.get(index, 0) > 0]
        if full and len(osts) < targets:
            chosen.append(file)
            for index in full:
                left[index] -= file.size_bytes // len(osts)
    return chosen


def misplaced_bytes(file: FilePlacement, desired: FileLayout, targets: int) -> int:
    """Bytes of a file that lie over another number of targets, or in another pool, than is wanted."""
    edges = {0, file.size_bytes}
    for component in (*file.layout.components, *desired.components):
        edges |= {each for each in (component.start, component.end) if each and each < file.size_bytes}
    ordered = sorted(edges)
    wrong = 0
    for start, end in pairwise(ordered):
        has, should = file.layout.component_at(start), desired.component_at(start)
        same_pool = should.pool is None or has.pool == should.pool
        same_server = has.on_metadata_server == should.on_metadata_server
        on_others = not should.on_metadata_server and not _is_as_wide(has.targets, should, targets)
        if not same_pool or not same_server or on_others:
            wrong += end - start
    return wrong


def _is_as_wide(has: int, should: Component, targets: int) -> bool:
    """Whether a file lies over as many targets as it should; nearly all of them are all.

    A target that is full, away or new when a file is made has none of it, and a move would not change that
    while it is full. Lustre itself may lack a quarter of a directory's stripes without calling them too few
    (min_stripe_count in lustre/lod/lod_qos.c). How many targets a pool has is not known here.
    """
    if should.stripe_count == ALL and should.pool is not None:
        return True
    width, lies = counted(should.stripe_count, targets), counted(has, targets)
    return lies == width or (width == targets and lies >= width - width // 4)


def counted(stripes: int, targets: int) -> int:
    """Over how many of `targets` so many stripes lie; -1 is all."""
    return targets if stripes == ALL else min(stripes, targets)
