"""What is left of a grid beyond its stacks: by tags, in buckets, and in a state that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Problem
from gridwright.providers.oci.deploy.resource_manager import Deployer, managed
from gridwright.providers.oci.layout import GRID, GRID_TAG, STORAGE, stack_name
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.provider import Caller
from gridwright.spec.model import GridSpec

# The bucket is emptied before it goes: OCI deletes none that has objects.

_SERVICE, _CLIENT = "object_storage", "ObjectStorageClient"


def namespace(cloud: OciCloud, compartment: str) -> str:
    """The tenancy's namespace of buckets. Raises OciCallError."""
    return str(cloud.call(_SERVICE, _CLIENT, "get_namespace", compartment_id=compartment))


def empty(cloud: OciCloud, compartment: str, bucket: str, caller: Caller) -> int:
    """Delete all objects of a bucket, where it is there; how many there were. Raises OciCallError."""
    where, count = (namespace(cloud, compartment), bucket), 0
    while names := _first_names(cloud, *where):
        for each in names:
            caller.go_on()
            cloud.call_or_none(_SERVICE, _CLIENT, "delete_object", *where, each)
        count += len(names)
    return count


def _first_names(cloud: OciCloud, *where: str) -> list[str]:
    """Names of the first page: what is deleted makes place for the next ones."""
    found = cloud.call_or_none(_SERVICE, _CLIENT, "list_objects", *where)
    return [] if found is None else [str(each.name) for each in found.objects]


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


# Whether the state that is at hand is that of the grid which is there.


def unknown_grid(spec: GridSpec, cloud: OciCloud, deployer: Deployer) -> Iterator[Problem]:
    """A problem where the grid is there, and no state that is at hand knows anything of it.

    All of it would be made a second time, and nobody would take the first one away. Raises GridwrightError.
    """
    stacks = [deployer.find(stack_name(spec.name, part)) for part in (STORAGE, GRID)]
    if any(each is not None and managed(deployer.state(each)) for each in stacks):
        return
    there = [each for each in tagged(cloud, spec.name) if each.type.lower() != STACK_TYPE]
    if there:
        yield Problem(
            f"grid {spec.name} is there already, such as {there[0].text}, and the state that knows it is not "
            f"in {deployer.where}",
            where=f"OCI, {cloud.region}",
            remedy="write oci.deploy and oci.state that it was made with, or bring that directory here; or "
            "write another name",
        )
