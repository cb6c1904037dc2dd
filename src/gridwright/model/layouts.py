"""The layout of each library of a grid: what its spec states, else what the model chooses."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.catalog import Catalog
from gridwright.filesystems.layout import LayoutChoice
from gridwright.model.grid import grid_model
from gridwright.model.grid_layouts import are_stated, layouts_of
from gridwright.spec.model import GridSpec


def library_layouts(spec: GridSpec, catalog: Catalog | None = None) -> Mapping[str, LayoutChoice]:
    """The layout of every library on a kind of file system that takes layouts, by the library's name.

    Raises GridwrightError where a layout is to be chosen and figures of the spec are not on sale.
    """
    if spec.nodes and not are_stated(spec):
        return grid_model(spec, catalog).layouts
    return layouts_of(spec, (), {})
