"""Layouts of libraries in words: what is chosen, why, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.filesystems.layout import ALL
from gridwright.model.prediction import AtOnce, LibraryLayout, PlacedRates, Prediction, UnevenSpace
from gridwright.report.figures import listed, megabytes, share


def alike_layouts(prediction: Prediction) -> Iterator[tuple[str, LibraryLayout]]:
    """The layouts of a prediction, with the names of all libraries that have each for the same reason."""
    names: dict[LibraryLayout, list[str]] = {}
    for name, layout in prediction.layouts.items():
        names.setdefault(layout, []).append(name)
    for layout, alike in names.items():
        yield listed(alike), layout


def layout_text(layout: LibraryLayout) -> str:
    """What it is and why, in a line."""
    return f"{layout.choice.layout.text} ({layout.choice.reason})"


def placed_texts(layout: LibraryLayout) -> Iterator[str]:
    """What streams get together by how files lie on OSTs, with this layout and with one stripe per file."""
    if layout.targets < 2:
        return
    if layout.uneven is not None:
        yield _uneven_text(layout, layout.uneven)
    for place, rates in enumerate(layout.placed):
        yield _placed_text(layout, rates, "large files" if place == 0 else "the same files")
    if layout.at_once is not None:
        floor = megabytes(layout.at_once.floor_bytes_per_s)
        yield f"{at_once_text(layout.at_once)}: {floor} MB/s or more for each"


def at_once_text(at_once: AtOnce) -> str:
    """What OSTs carry while all libraries are busy that have files on them."""
    return (
        f"with {listed([*at_once.libraries])} busy at once, {at_once.streams} streams meet the same OSTs, "
        f"which carry {share(at_once.share)} of what all require in 95 % of placements "
        f"({100 * at_once.required_share:.3g} % must be there)"
    )


def free_space_text(uneven: UnevenSpace) -> str:
    """How far apart the free space of OSTs is."""
    full, empty = (f"{100 * each:.0f} %" for each in (uneven.fullest_free, uneven.emptiest_free))
    return f"{uneven.fullest} has {full} free against {empty} of {uneven.emptiest}"


def _placed_text(layout: LibraryLayout, placed: PlacedRates, files: str) -> str:
    streams = f"{layout.streams} stream{'s'[: layout.streams != 1]}"
    whole = megabytes(placed.in_order_bytes_per_s)
    if placed.stripes == ALL:
        return f"{files} over all OSTs: every placement is alike, and {streams} share {whole} MB/s"
    over = f"{placed.stripes} OST{'s'[: placed.stripes != 1]}"
    sure, half = megabytes(placed.floor_bytes_per_s), megabytes(placed.median_bytes_per_s)
    return (
        f"{files} over {over}: {streams} on {layout.targets} OSTs share {sure} MB/s or more in 95 % of "
        f"placements, {half} in half of them, and {whole} where files were made one after another: "
        "the fullest OST ends last"
    )


def _uneven_text(layout: LibraryLayout, uneven: UnevenSpace) -> str:
    floor = layout.placed[0].floor_bytes_per_s
    return (
        f"{free_space_text(uneven)}: new files of {layout.streams} streams meet {uneven.met} of "
        f"{layout.targets} OSTs, and {_change(floor, uneven.alike_bytes_per_s)}"
    )


def _change(floor: float, alike: float) -> str:
    if floor < alike:
        return f"what they get in 95 % of placements falls from {megabytes(alike)} to {megabytes(floor)} MB/s"
    return f"they get {megabytes(floor)} MB/s or more in 95 % of placements, as where space is alike"
