"""What the layout of each library is worth: rates of its streams by how their files happen to lie on OSTs."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.filesystems.allocation import fullest_and_emptiest
from gridwright.filesystems.layout import ALL, LayoutChoice
from gridwright.filesystems.placements import met_in_half, spread
from gridwright.filesystems.resources import Contribution
from gridwright.model.grid import GridModel
from gridwright.model.prediction import AtOnce, LibraryLayout, PlacedRates, UnevenSpace
from gridwright.model.shared_targets import SharedTargets, shared_targets
from gridwright.spec.at_once import peak_factor_of


def placed_layouts(model: GridModel, streams_per_node: int | None) -> dict[str, LibraryLayout]:
    """The layout of every library that has one, with so many streams a node: one per core by default."""
    streams = sum(group.streams(streams_per_node) * group.nodes for group in model.groups)
    sharing = {
        each.library: shared
        for shared in shared_targets(
            model.libraries, model.layouts, model.contributions, model.groups, streams_per_node
        )
        for each in shared.libraries
        if len(shared.libraries) > 1
    }
    found = {}
    for name, choice in model.layouts.items():
        there = model.contributions[model.libraries[name].filesystem]
        placed = tuple(_placed(choice, there, streams)) if there.target_bytes_per_s else ()
        uneven = _uneven(choice, there, streams) if placed else None
        at_once = _at_once(model, name, sharing[name], placed[0]) if name in sharing else None
        found[name] = LibraryLayout(choice, streams, there.targets, placed, uneven, at_once)
    return found


def _at_once(model: GridModel, name: str, shared: SharedTargets, alone: PlacedRates) -> AtOnce:
    own = next(each for each in shared.libraries if each.library == name)
    share = min(shared.smallest_share, 1.0)
    return AtOnce(
        tuple(each.library for each in shared.libraries),
        sum(each.streams for each in shared.libraries),
        share,
        peak_factor_of(model.spec).value,
        min(alone.floor_bytes_per_s, share * own.streams * own.bytes_per_s),
    )


def _uneven(choice: LayoutChoice, there: Contribution, streams: int) -> UnevenSpace | None:
    """How far apart free space is; None where nobody looked, or new files go round all OSTs."""
    ends = fullest_and_emptiest(there.space or ())
    if there.space is None or ends is None:
        return None
    least, most = ends
    stripes = choice.layout.components[-1].stripe_count
    return UnevenSpace(
        least.name,
        least.free_part,
        most.name,
        most.free_part,
        met_in_half(streams, there.space, stripes),
        spread(streams, there.targets, stripes).floor * _whole(there),
    )


def _whole(there: Contribution) -> float:
    """What all targets deliver in the slower direction, in bytes/s."""
    return there.targets * min(there.target_bytes_per_s.values())


def _placed(choice: LayoutChoice, there: Contribution, streams: int) -> Iterator[PlacedRates]:
    whole = _whole(there)
    stripes = choice.layout.components[-1].stripe_count
    stripes = ALL if stripes >= there.targets else stripes
    for each in dict.fromkeys((stripes, 1)):
        shares = spread(streams, there.targets, each, there.space)
        yield PlacedRates(each, shares.floor * whole, shares.median * whole, shares.in_order * whole)
