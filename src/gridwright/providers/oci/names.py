"""Names of what a grid has on OCI, and the tags by which all of it is found again."""

from __future__ import annotations

from typing import Any

from gridwright.providers.oci.layout import OciLayout

GRID_TAG, PART_TAG = "gridwright-grid", "gridwright-part"
STORAGE, GRID = "storage", "grid"
"""The two roots, which are directories of what is rendered and stacks of Resource Manager."""


def stack_name(grid: str, part: str) -> str:
    """The name of a stack of Resource Manager."""
    return f"gridwright-{grid}-{part}"


def is_there(resource: Any, grid: str) -> bool:  # noqa: ANN401 - the SDK has no types
    """Whether an instance or a volume is the grid's, and is not gone or going."""
    tagged = (resource.freeform_tags or {}).get(GRID_TAG) == grid
    return tagged and resource.lifecycle_state not in ("TERMINATED", "TERMINATING")


def tags(layout: OciLayout, part: str) -> dict[str, str]:
    """Free-form tags of everything in a root; those of the site cannot hide the grid's."""
    return {**layout.oci.tags, GRID_TAG: layout.grid, PART_TAG: part}
