"""Layouts out of the attribute `lustre.lov`, without a process for each file, by the native reader."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright import _native
from gridwright.filesystems.layout import Component, FileLayout
from gridwright.messages import decode

ATTRIBUTES = ("lustre.lov", "trusted.lov")
"""What a client shows to everybody, and what to root where it does not show the first."""


@dataclass(frozen=True, slots=True)
class StripeObject:
    """A stripe: the index of its target, and its identifier."""

    ost: int
    sequence: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredComponent:
    """A component as the attribute has it; sizes in bytes, stripe_count -1 for all targets."""

    start: int
    end: int | None
    stripe_count: int
    stripe_bytes: int | None
    extension_bytes: int | None
    """By how much one that extends itself grows."""
    pool: str | None
    on_metadata_server: bool
    overstriped: bool
    released: bool
    """Its data are in the archive only."""
    hole: bool
    """Objects of it are lost."""
    mirror: int
    flags: list[str]
    objects: list[StripeObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLayout:
    """What an attribute says."""

    components: list[StoredComponent]
    """None of a foreign layout."""
    composite: bool
    generation: int | None
    foreign: int | None
    """The type number of a file whose data Lustre does not hold."""
    is_default: bool

    @property
    def layout(self) -> FileLayout | None:
        """In the terms of all kinds of file systems; None of a foreign one."""
        if not self.components:
            return None
        return FileLayout(tuple(map(_component, self.components)), is_default=self.is_default)


def _component(stored: StoredComponent) -> Component:
    return Component(
        start=stored.start,
        end=stored.end,
        stripe_count=stored.stripe_count,
        stripe_bytes=stored.stripe_bytes,
        pool=stored.pool,
        on_metadata_server=stored.on_metadata_server,
        overstriped=stored.overstriped,
        mirror=stored.mirror,
        flags=tuple(stored.flags),
        osts=tuple(each.ost for each in stored.objects),
    )


def decode_attribute(attribute: bytes) -> StoredLayout:
    """The layout in an attribute. Raises ValueError, which says why it is none."""
    return decode(_native.decode_layout(attribute), StoredLayout)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """A file that a scan has seen. Times in seconds since 1970."""

    path: str
    size_bytes: int
    allocated_bytes: int
    """Less than its size where it is sparse; of all mirrors together."""
    modified_s: int
    born_s: int | None
    layout: StoredLayout


@dataclass(frozen=True, slots=True)
class FileCount:
    """Files, and their length in bytes."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """Files that are alike."""

    layout: str
    """For each component its end in bytes and stripes, such as `67108864:1,-1`; `o` is overstriped."""
    size_class: int
    """Their size is below 2 to this power; 0 is empty."""
    age_days: int
    """Written last within so many days (1, 7, 30, 365); 0 is longer ago."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that a scan could not look at, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What a scan found."""

    files: FileCount
    directories: int
    classes: list[ClassCount]
    """Without released and foreign files, and those that have no layout."""
    targets: dict[str, int]
    """Bytes by index of target, where holes of files are taken to be spread evenly."""
    metadata_server_bytes: int
    released: FileCount
    foreign: FileCount
    without_layout: FileCount
    unread: int
    unread_named: list[Unread] = field(default_factory=list)
    largest: list[SeenFile] = field(default_factory=list)
    """Those that take most, the largest first."""
    complete: bool = True
    hanging: list[str] = field(default_factory=list)
    """Directories in which something hung when the scan's time was over."""


def scan(
    directories: Sequence[Path],
    *,
    seconds: float,
    attributes: Sequence[str] = ATTRIBUTES,
    threads: int = 4,
    keep: int = 64,
) -> Scanned:
    """Read the layouts of all files in directories, for at most `seconds`, with the `keep` largest by name.

    No file is opened, no target is asked, and other file systems below are left out. Memory does not grow
    with the number of files. KeyboardInterrupt ends it within a second.
    """
    going = _native.LayoutScan(list(directories), list(attributes), threads, keep, seconds)
    while not going.wait(0.2):
        pass
    return decode(going.summary(), Scanned)


def list_files(
    places: Sequence[Path],
    *,
    at_least_bytes: int,
    seconds: float,
    attributes: Sequence[str] = ATTRIBUTES,
    threads: int = 4,
) -> Generator[SeenFile, None, Scanned]:
    """Every file of a size with its layout, in no order; what else was seen is the value that it ends with.

    Places are directories or files. Memory is bounded: the scan waits for who takes its files. Names that
    are no text are counted as unread.
    """
    going = _native.LayoutScan(list(places), list(attributes), threads, 0, seconds, at_least_bytes)
    ended = False
    while not ended:
        ended = going.wait(0.05)
        yield from decode(going.take(), list[SeenFile])
    return decode(going.summary(), Scanned)
