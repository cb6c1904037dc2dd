"""What removes a grid from OCI: machines shut down in order, and what is left of a grid beyond its stacks.

Machines are shut down before their volumes are detached: nodes first, then servers of file systems.
Terraform destroys attachments before instances, and OCI detaches a volume that a running server writes to:
what had not reached the volume would be lost (facts oci-scale, rule 9: compute, unmount, shut down, detach).
What is left is found by tags, in buckets, and in a state that is known.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Problem, environment_error
from gridwright.providers.oci.layout import GRID, GRID_TAG, STORAGE, OciLayout, is_there, stack_name
from gridwright.providers.oci.resource_manager import Deployer, managed
from gridwright.providers.oci.session import COMPUTE, OciCallError, OciCloud
from gridwright.providers.provider import Caller
from gridwright.spec.model import GridSpec

LONGEST_S = 1500.0
"""OCI powers an instance off that has not shut down 15 minutes after SOFTSTOP (Core Services API,
InstanceAction); the rest is for machines that start or stop already."""


def shut_down(
    cloud: OciCloud,
    compartment: str,
    layout: OciLayout,
    caller: Caller,
    poll_s: float,
    *,
    only: Collection[str] | None = None,
) -> None:
    """Shut clients down, then servers, and wait for each. Raises GridwrightError where one does not end.

    With `only` those of these names. Without servers of file systems nothing is done: what nodes hold goes
    with them.
    """
    servers = {each.name for each in layout.machines if each.role.is_server}
    if not servers:
        return
    clients = {each.name for each in layout.machines} - servers
    if only is not None:
        # What the layout does not know any more may have been a server.
        clients, servers = clients & set(only), set(only) - clients
    for what, names in (("nodes", clients), ("servers of file systems", servers)):
        _shut_down(cloud, compartment, (layout.grid, what, names), caller, poll_s)


def _shut_down(
    cloud: OciCloud, compartment: str, which: tuple[str, str, Collection[str]], caller: Caller, poll_s: float
) -> None:
    grid, what, names = which
    until = time.monotonic() + LONGEST_S
    asked: set[str] = set()
    while running := _running(cloud, compartment, grid, names):
        if not asked:
            caller.say(f"shutting {what} down: {len(running)}")
        for each in running:
            if each.id not in asked and each.lifecycle_state == "RUNNING":
                asked.add(each.id)
                _ask(cloud, each.id)
        if time.monotonic() > until:
            raise environment_error(
                f"{', '.join(each.display_name for each in running)}: not shut down after "
                f"{LONGEST_S / 60:.0f} min, so no volume was detached",
                where=f"OCI, {running[0].id}",
                remedy="stop it in the console, then run the same command",
            )
        caller.pause(poll_s)


def _running(cloud: OciCloud, compartment: str, grid: str, names: Collection[str]) -> list[Any]:
    return [
        each
        for each in cloud.listed(*COMPUTE, "list_instances", compartment)
        if is_there(each, grid) and each.display_name in names and each.lifecycle_state != "STOPPED"
    ]


def _ask(cloud: OciCloud, instance: str) -> None:
    """Have the system shut down; one that is gone, or changes its state already, is looked at again."""
    try:
        cloud.call(*COMPUTE, "instance_action", instance, "SOFTSTOP")
    except OciCallError as error:
        if error.http_status not in (404, 409):
            raise


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
