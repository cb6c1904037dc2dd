"""What of a grid is in the tenancy, found by its tag: the proof that `down` has left nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridwright.providers.oci.names import GRID_TAG
from gridwright.providers.oci.session import OciCloud

GONE = frozenset({"TERMINATED", "TERMINATING", "DELETED", "DELETING", "DETACHED", "INACTIVE"})
"""States, in capitals, of resources that the search still lists (OCI, Search: resources stay a while)."""

STACK_TYPE = "ormstack"
"""What the search calls a stack of Resource Manager: it has the tag of its grid, and costs nothing."""


@dataclass(frozen=True, slots=True)
class OciLeftover:
    """One resource of a grid."""

    type: str
    name: str
    ocid: str
    part: str
    """The root that made it: storage or grid; empty where it does not say."""

    @property
    def text(self) -> str:
        """On one line."""
        return f"{self.type} {self.name} ({self.ocid})"


def tagged(cloud: OciCloud, grid: str) -> list[OciLeftover]:
    """All resources of the region with the grid's tag that are not gone. Raises GridwrightError.

    Names of grids are letters, digits and hyphens, so none can end the query's text.
    """
    from oci.resource_search import models

    query = f"query all resources where (freeformTags.key = '{GRID_TAG}' && freeformTags.value = '{grid}')"
    details = models.StructuredSearchDetails(query=query)
    found: list[Any] = cloud.listed("resource_search", "ResourceSearchClient", "search_resources", details)
    return [
        OciLeftover(
            each.resource_type,
            each.display_name or "",
            each.identifier,
            (each.freeform_tags or {}).get("gridwright-part", ""),
        )
        for each in found
        if (each.lifecycle_state or "").upper() not in GONE
        # The search knows a key and a value, each of any tag; that both are of one is looked at here.
        and (each.freeform_tags or {}).get(GRID_TAG) == grid
    ]
