"""What the layout of each library is worth: rates of its streams by how their files happen to lie on OSTs."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.filesystems.layout import ALL, LayoutChoice
from gridwright.filesystems.placements import spread
from gridwright.filesystems.resources import Contribution
from gridwright.model.grid import GridModel
from gridwright.model.prediction import LibraryLayout, PlacedRates


def placed_layouts(model: GridModel, streams_per_node: int | None) -> dict[str, LibraryLayout]:
    """The layout of every library that has one, with so many streams a node: one per core by default."""
    streams = sum(group.streams(streams_per_node) * group.nodes for group in model.groups)
    found = {}
    for name, choice in model.layouts.items():
        there = model.contributions[model.libraries[name].filesystem]
        placed = tuple(_placed(choice, there, streams)) if there.target_bytes_per_s else ()
        found[name] = LibraryLayout(choice, streams, there.targets, placed)
    return found


def _placed(choice: LayoutChoice, there: Contribution, streams: int) -> Iterator[PlacedRates]:
    whole = there.targets * min(there.target_bytes_per_s.values())
    stripes = choice.layout.components[-1].stripe_count
    stripes = ALL if stripes >= there.targets else stripes
    for each in dict.fromkeys((stripes, 1)):
        shares = spread(streams, there.targets, each)
        yield PlacedRates(each, shares.floor * whole, shares.median * whole, shares.in_order * whole)
