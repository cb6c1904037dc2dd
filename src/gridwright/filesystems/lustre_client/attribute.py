"""Layouts of files out of the attribute `lustre.lov`, and whether the largest files lie as they should.

The native reader takes no process for each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright import _native
from gridwright.filesystems.layout import Component, FileLayout, FilePlacement, counted, misplaced_bytes
from gridwright.messages import decode
from gridwright.units import format_bytes

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


GROWN_S = 3600
"""A file that was still written so long after it was made grew by appending: a job copies faster."""
STREAM = 10e6
"""In bytes/s: what grew as fast as that all the time was written by one stream, however long that took: a
terabyte over one OST takes more than an hour."""
FRESH_S = 300
"""Who wrote a file so recently may not have ended: it is judged next time."""
LEAST = 16 * 2**20
"""Smaller files are left alone, as gridwright layout rebalance does: one target has them within a tenth of a
second."""
_DAY_S = 86_400
_AGES = ((1, "day"), (7, "week"), (30, "month"), (365, "year"))


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file with what is wanted of the part that holds its middle."""

    file: SeenFile
    width: int
    """Different targets that its middle lies on."""
    wanted: int | None
    """How many it should have; None where nothing is wanted."""
    misplaced_bytes: int

    @property
    def size_bytes(self) -> int:
        """What of it takes room: the end of a sparse file holds nothing."""
        return min(self.file.size_bytes, self.file.allocated_bytes)

    @property
    def is_misplaced(self) -> bool:
        """Whether more than half of it lies otherwise: rebalance moves it from there on."""
        return 2 * self.misplaced_bytes > self.size_bytes

    @property
    def is_narrow(self) -> bool:
        """Whether it lies on too few targets."""
        return self.wanted is not None and self.width < self.wanted


@dataclass(slots=True)
class Judged:
    """Of the largest files: those that were judged, the largest first, and why others were left alone."""

    files: list[JudgedFile] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)

    def without(self, archived: Collection[str]) -> None:
        """Leave files alone that an archive knows."""
        kept = [each for each in self.files if each.file.path not in archived]
        self.left["archived"] += len(self.files) - len(kept)
        self.files = kept

    @property
    def left_text(self) -> str:
        """Such as `; left alone: 3 appended, 2 archived`."""
        words = [f"{number} {why}" for why, number in sorted(self.left.items()) if number]
        return f"; left alone: {', '.join(words)}" if words else ""


def judge(
    largest: Sequence[SeenFile],
    wanted: FileLayout | None,
    targets: int,
    now_s: float,
    *,
    released: int = 0,
    least_bytes: int = LEAST,
) -> Judged:
    """Hold files against a layout, where one is wanted; `released` is how many a scan has left out."""
    judged = Judged()
    judged.left["released"] = released
    for each in largest:
        layout = each.layout.layout
        size = min(each.size_bytes, each.allocated_bytes)
        if layout is None or size < least_bytes:
            continue
        why = why_left(each, layout, now_s)
        if why is not None:
            judged.left[why] += 1
            continue
        part = layout.component_at(size // 2)
        if part.on_metadata_server:
            judged.left["on the metadata server"] += 1
            continue
        should = wanted.component_at(size // 2) if wanted else None
        if should is not None and should.on_metadata_server:
            judged.left["wanted on the metadata server"] += 1
            continue
        judged.files.append(
            JudgedFile(
                each,
                counted(part.targets, targets),
                None if should is None else counted(should.stripe_count, targets),
                misplaced_bytes(FilePlacement(each.path, size, layout), wanted, targets) if wanted else 0,
            )
        )
    return judged


def why_left(file: SeenFile, layout: FileLayout, now_s: float) -> str | None:
    """Why a file is left alone; None where it is to be judged."""
    if layout.mirrors > 1:
        return "mirrored"
    if was_appended(file, layout):
        return "appended"
    return "being written" if now_s - file.modified_s < FRESH_S else None


def was_appended(file: SeenFile, layout: FileLayout) -> bool:
    """Whether it looks like a file that was opened to append: one stripe, whatever its directory wants."""
    part = layout.components[0]
    is_one = len(layout.components) == 1 and not file.layout.composite and part.stripe_count == 1
    if not is_one or file.born_s is None:
        return False
    took_s = file.modified_s - file.born_s
    return took_s > GROWN_S and min(file.size_bytes, file.allocated_bytes) < took_s * STREAM


def ages(files: Sequence[JudgedFile], now_s: float) -> str:
    """How many were written last within a day, a week, a month, a year, and before."""
    found: Mapping[str, int] = Counter(_age(now_s - each.file.modified_s) for each in files)
    order = [f"in the last {word}" for _, word in _AGES] + ["longer ago"]
    return "written last: " + ", ".join(f"{found[word]} {word}" for word in order if found.get(word))


def _age(seconds: float) -> str:
    return next((f"in the last {word}" for days, word in _AGES if seconds < days * _DAY_S), "longer ago")


def total(files: Sequence[JudgedFile]) -> str:
    """Bytes of them all, in words."""
    return format_bytes(sum(each.file.allocated_bytes for each in files))
