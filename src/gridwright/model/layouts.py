"""The layout of each library of a grid: what its spec states, else what the model chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridwright.catalog import Catalog
from gridwright.filesystems import kind_of
from gridwright.filesystems.layout import LayoutChoice
from gridwright.filesystems.resources import Contribution
from gridwright.model.alike_nodes import AlikeNodes
from gridwright.model.layout_choice import Streams, Targets, choose, no_wider
from gridwright.spec.library import Library
from gridwright.spec.model import GridSpec


def library_layouts(spec: GridSpec, catalog: Catalog | None = None) -> Mapping[str, LayoutChoice]:
    """The layout of every library on a kind of file system that takes layouts, by the library's name.

    Raises GridwrightError where a layout is to be chosen and figures of the spec are not on sale.
    """
    from gridwright.model.grid import grid_model

    found = {name: _stated(spec, library) for name, library in _with_layouts(spec).items()}
    if any(each is None for each in found.values()) and spec.nodes:
        return grid_model(spec, catalog).layouts
    return layouts_of(spec, (), {})


def layouts_of(
    spec: GridSpec, groups: Sequence[AlikeNodes], contributions: Mapping[str, Contribution]
) -> dict[str, LayoutChoice]:
    """The same, with what is known of nodes and file systems already."""
    cores = sum(group.cores for group in groups)
    found: dict[str, LayoutChoice] = {}
    for name, library in _with_layouts(spec).items():
        choice = _stated(spec, library) or _chosen(
            spec, library, contributions.get(library.filesystem), cores
        )
        if choice is not None:
            found[name] = choice
    return found


def _with_layouts(spec: GridSpec) -> dict[str, Library]:
    return {
        str(name): library
        for name, library in spec.libraries.items()
        if library.filesystem in spec.filesystems and spec.filesystems[library.filesystem].takes_layouts
    }


def _stated(spec: GridSpec, library: Library) -> LayoutChoice | None:
    filesystem = spec.filesystems[library.filesystem]
    layout = kind_of(filesystem).stated_layout(filesystem, library)
    if layout is None:
        return None
    what = "layout of the library" if library.layout else f"stripe_count of {library.filesystem}"
    return LayoutChoice(layout, f"the grid spec says so ({what})", stated=True)


def _chosen(
    spec: GridSpec, library: Library, contribution: Contribution | None, cores: int
) -> LayoutChoice | None:
    """What the model chooses; the advised one where it has nothing to choose by."""
    targets = contribution.targets if contribution else 0
    rates = contribution.target_bytes_per_s if contribution else {}
    if targets and rates and cores and library.requires is not None:
        streams = Streams(cores, float(library.requires.bytes_per_s))
        return choose(streams, Targets(targets, min(rates.values())))
    filesystem = spec.filesystems[library.filesystem]
    advised = kind_of(filesystem).advised_layout(filesystem)
    if advised is None:
        return None
    why = "nothing is required of the library" if targets and rates else "nothing is known of its OSTs"
    reason = f"{why}, so it has what is advised for files of all sizes"
    return LayoutChoice(no_wider(advised, targets), reason, stated=False)
