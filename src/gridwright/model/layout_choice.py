"""Chooses over how many targets the files of a library are striped, where the grid spec leaves it open.

Wider files let one stream have more, and spread the load of all more evenly. They cost a metadata request for
each target and file when they are opened (an enqueue) and when their size is asked for (a glimpse): no file
is wider than its library needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gridwright.filesystems.allocation import TargetSpace, candidates
from gridwright.filesystems.layout import ALL, Component, FileLayout, LayoutChoice
from gridwright.filesystems.placements import spread
from gridwright.model.margins import margin_of
from gridwright.units import format_rate

SMALL_FILE = 256 * 2**20
"""Files up to here lie on one target: at 240 MB/s of a target (FSx for Lustre) they take about a second, in
which a second target saves less than its requests cost where there are thousands of them."""
LARGE_FILE = 16 * 2**30
"""From here on a file keeps a stream busy for minutes (at 125 MB/s, two), so that a full target is waited
for: nothing evens it out before a job sees it."""
_MIDDLE_FILES = 8
"""Files of the geometric mean of both, 2 GiB, that a stream moves while it would move one of LARGE_FILE."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams of a library that are busy at once, and what each needs, in bytes/s.

    `useful_stripes` is how many targets deliver what the grid lets one of them have of all that it passes.
    """

    count: int
    required_bytes_per_s: float
    useful_stripes: float = 1.0


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of a file system that are alike, and what one delivers, in bytes/s."""

    count: int
    bytes_per_s: float
    space: tuple[TargetSpace, ...] | None = None
    """The free space of each; None where all have as much."""

    @property
    def taking_files(self) -> int:
        """How many new files may lie on: those that are full or away take none."""
        return self.count if self.space is None else len(candidates(self.space))


def choose(streams: Streams, targets: Targets, at_least: int = 1, beside: str = "") -> LayoutChoice:
    """The smallest stripe counts with which one stream alone, and all together, have what they need.

    All together in 95 % of placements (`gridwright.filesystems.placements`), by the margin of error of
    servers, so that a layout is no reason for a requirement to be within it. Files of less than SMALL_FILE
    have one stripe; those up to LARGE_FILE are so many to a stream that a full target is less of a loss.
    Beyond that requests count for nothing, and a stream may have its share of whatever the grid passes.
    Large files have `at_least` so many stripes (below 1: all), for the sake of the libraries `beside`.
    """
    middle, large = (_smallest(streams, targets, files) for files in (_MIDDLE_FILES, 1))
    useful = next((each for each in widths(targets.count) if each >= streams.useful_stripes), ALL)
    wide = ALL if large is None or ALL in (useful, at_least) else max(large, useful, at_least)
    layout = _layout(targets, ((SMALL_FILE, 1), (LARGE_FILE, middle or ALL), (None, wide)))
    need = f"{streams.count} stream{'s'[: streams.count != 1]} of {format_rate(streams.required_bytes_per_s)}"
    on = f"{targets.count} OST{'s'[: targets.count != 1]} of {format_rate(targets.bytes_per_s)}"
    taking = targets.taking_files
    on += "" if taking == targets.count else f", {taking} of which take new files"
    why = "; ".join(_why(streams, targets, large, wide, beside))
    return LayoutChoice(layout, f"{need} on {on}: {why}", stated=False)


def _why(streams: Streams, targets: Targets, large: int | None, wide: int, beside: str) -> Iterator[str]:
    if targets.count == 1:
        yield "there is one OST"
        return
    if large is None:
        whole = format_rate(targets.taking_files * targets.bytes_per_s)
        yield f"all OSTs together ({whole}) are just enough or too slow, so no other layout meets it always"
        return
    yield f"{_stripes(large)} a large file meet{'s'[: large == 1]} that in 95 % of placements"
    if large > 1:
        floor = spread(streams.count, targets.count, 1, targets.space).floor
        each = floor * targets.count * targets.bytes_per_s / streams.count
        yield f"one is worth {format_rate(each)}"
    if beside:
        yield f"{_stripes(wide)} leave OSTs even while {beside} use them, too"
    elif wide != large:
        yield f"{_stripes(wide)} let a stream have its share of what the grid passes"


def _stripes(count: int) -> str:
    if count == ALL:
        return "stripes on all"
    return f"{count} stripe{'s'[: count != 1]}"


def widths(targets: int) -> list[int]:
    """Stripe counts to choose from: each twice the one before, and all targets.

    Twice as many stripes never make a placement worse, which one more can.
    """
    return [*(2**power for power in range(targets.bit_length()) if 2**power < targets), targets]


def _smallest(streams: Streams, targets: Targets, files: int) -> int | None:
    """The smallest stripe count that is enough where a stream moves so many files; None where only all is."""
    wanted = streams.required_bytes_per_s * (1 + margin_of("server").p90)
    for width in widths(targets.count)[:-1]:
        if width * targets.bytes_per_s < wanted:
            continue
        floor = spread(streams.count * files, targets.count, width, targets.space).floor
        if floor * targets.count * targets.bytes_per_s >= wanted * streams.count:
            return width
    return None


def _layout(targets: Targets, parts: Sequence[tuple[int | None, int]]) -> FileLayout:
    """Parts of a file by their ends, those with as many stripes as the next one put together."""
    components: list[Component] = []
    for end, stripes in parts:
        width = stripes if stripes < targets.count else ALL
        width = 1 if targets.count == 1 else width
        if components and components[-1].stripe_count == width:
            components[-1] = replace(components[-1], end=end)
        else:
            start = (components[-1].end or 0) if components else 0
            components.append(Component(start=start, end=end, stripe_count=width))
    return FileLayout(tuple(components))


def no_wider(layout: FileLayout, targets: int) -> FileLayout:
    """The layout with no part over more targets than there are; 0 where nobody knows how many."""
    if targets < 1:
        return layout
    return replace(
        layout,
        components=tuple(
            replace(each, stripe_count=min(each.stripe_count, targets)) for each in layout.components
        ),
    )
