"""The table of layouts on pages of predictions and plans: what each library has, why, and its band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridwright.filesystems.layout import ALL
from gridwright.model.prediction import LibraryLayout, PlacedRates, Prediction
from gridwright.report.designs.layout_words import alike_layouts, at_once_text, free_space_text
from gridwright.report.figures import ABSENT, megabytes
from gridwright.report.tables import Table, table_of

_PLACEMENTS = (
    "In 95 % and in half of all placements of files on OSTs, at least; in a row: where all files were made "
    "one after another"
)


def layouts_table(prediction: Prediction) -> Table | None:
    """Over how many OSTs files lie, and what all streams get together by how they happen to lie there.

    Below each layout that is not of one stripe stands what the same files would get with one.
    """
    rows = [
        (names, layout, placed, place)
        for names, layout in alike_layouts(prediction)
        for place, placed in enumerate(layout.placed or (None,))
    ]
    if not rows:
        return None
    table = table_of(
        "Layouts of files: what all streams of a library get together, in MB/s",
        rows,
        {
            "Library": lambda row: row[0],
            "Large files on": lambda row: _width(row[1], row[2]),
            "In 95 %": lambda row: megabytes(row[2].floor_bytes_per_s) if row[2] else ABSENT,
            "In half": lambda row: megabytes(row[2].median_bytes_per_s) if row[2] else ABSENT,
            "In a row": lambda row: megabytes(row[2].in_order_bytes_per_s) if row[2] else ABSENT,
            "All libraries busy": lambda row: _busy(row[1], row[3]),
            "Layout": lambda row: row[1].choice.layout.text if row[3] == 0 else "one OST a file instead",
            "Why": lambda row: row[1].choice.reason if row[3] == 0 else ABSENT,
        },
        "Large files on|Layout|Why",
    )
    notes = dict.fromkeys(note for layout in prediction.layouts.values() for note in _notes(layout))
    return replace(table, note="; ".join([_PLACEMENTS, *notes]))


def _notes(layout: LibraryLayout) -> Iterator[str]:
    """What is the same for all libraries on the same OSTs."""
    if layout.uneven is not None:
        yield f"{free_space_text(layout.uneven)}: new files go by free space"
    if layout.at_once is not None:
        yield at_once_text(layout.at_once)


def _busy(layout: LibraryLayout, place: int) -> str:
    return megabytes(layout.at_once.floor_bytes_per_s) if layout.at_once and place == 0 else ABSENT


def _width(layout: LibraryLayout, placed: PlacedRates | None) -> str:
    stripes = placed.stripes if placed else layout.choice.layout.components[-1].stripe_count
    if stripes == ALL:
        return "all OSTs"
    of = f" of {layout.targets}" if layout.targets else ""
    return f"{stripes}{of} OST{'s'[: (layout.targets or stripes) != 1]}"
