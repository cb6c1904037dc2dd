"""The largest files of a scan: those that lie otherwise than they should, and those that are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.lustre_client.attribute import SeenFile
from gridwright.filesystems.moving import FilePlacement, counted, misplaced_bytes
from gridwright.units import format_bytes

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
