"""Tags as AWS gives and takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridwright.providers.aws.names import GRID_TAG


def of_grid(grid: str) -> list[dict[str, Any]]:
    """The filter of EC2 for what carries the tag of a grid."""
    return [{"Name": f"tag:{GRID_TAG}", "Values": [grid]}]


def tags_of(resource: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a resource by name; some services call them TagSet."""
    return {each["Key"]: each["Value"] for each in resource.get("Tags") or resource.get("TagSet") or ()}
