"""`down`: destroys the stack of a grid on OCI; storage stays unless its file systems are named.

Machines are shut down before their volumes are detached: nodes first, then servers of file systems.
Terraform destroys attachments before instances, and OCI detaches a volume that a running server writes to:
what had not reached the volume would be lost (facts oci-scale, rule 9: compute, unmount, shut down, detach).
What is left of a grid beyond its stacks is found by tags, in buckets, and in a state that is known.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.errors import Problem, environment_error, input_error
from gridwright.providers.oci.deploy import deployer_of
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.layout import (
    GRID,
    GRID_TAG,
    PART_TAG,
    STORAGE,
    OciLayout,
    is_there,
    oci_layout,
    section_of,
    stack_name,
)
from gridwright.providers.oci.resource_manager import POLL_S, Deployer, managed, root_files, unprotected
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import COMPUTE, OciCallError, OciCloud
from gridwright.providers.oci.terraform.boot import bucket_name
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


# `down`: destroys the stack of the grid; storage stays unless its file systems are named.


@dataclass(frozen=True, slots=True)
class OciDown:
    """What `down` did."""

    grid: str
    region: str
    was_up: bool
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {**asdict(self), "removed": list(self.removed), "kept": list(self.kept), "left": []}

    def text(self) -> str:
        """See Result."""
        if not self.kept:
            state = "is down: nothing of it is left" if self.was_up else "was not up: nothing of it is"
            return f"grid {self.grid} {state} in {self.region}"
        first = f"grid {self.grid} is down; kept, and billed:"
        last = "  gridwright down --delete-data NAME, for each file system, removes it with all data"
        return "\n".join([first, *(f"  {each}" for each in self.kept), last])


_LOOKS = 6
"""Looks for leftovers: the search learns of what was removed with a delay."""


@dataclass(frozen=True, slots=True)
class OciInventory:
    """The stacks of a grid that exist, and which of them are to go."""

    spec: GridSpec
    cloud: OciCloud
    oci: Oci
    grid: Any
    storage: Any
    with_data: bool
    names: tuple[str, ...]
    """File systems whose data are in the storage."""


def look(spec: GridSpec, delete_data: frozenset[str]) -> OciInventory:
    """What is there; nothing is changed. Raises GridwrightError."""
    oci = section_of(spec, "down")
    # What lies on the disks of nodes goes with them.
    names = frozenset(name for name, each in spec.filesystems.items() if not each.is_node_local)
    if delete_data and delete_data != names:
        raise input_error(
            f"on OCI the storage of a grid goes as a whole, and file systems are {', '.join(sorted(names))}",
            where="--delete-data",
            remedy="name each of them, or none: without it all storage stays",
        )
    cloud = OciCloud(str(spec.region))
    deployer = deployer_of(spec, oci, cloud, Caller())
    grid, storage = (deployer.find(stack_name(spec.name, part)) for part in (GRID, STORAGE))
    return OciInventory(spec, cloud, oci, grid, storage, bool(delete_data), tuple(sorted(names)))


def question(found: OciInventory) -> str | None:
    """What goes and what stays; None where nothing goes."""
    goes = [each for each in (found.grid, found.storage if found.with_data else None) if each is not None]
    if not goes:
        return None
    lines = [f"gridwright down of grid {found.spec.name} removes:"]
    lines += [f"  stack {each.display_name} with all that it has made" for each in goes]
    if found.with_data:
        lines.append(f"  ALL DATA of {', '.join(found.names)}, and the grid's bucket with its logs")
    elif found.storage is not None:
        lines += ["and keeps, billed:", f"  stack {found.storage.display_name}: network, volumes, bucket"]
    return "\n".join(lines)


def down(found: OciInventory, caller: Caller, *, poll_s: float = POLL_S) -> OciDown:
    """Remove it. Raises GridwrightError with what is left where something is."""
    deployer = deployer_of(found.spec, found.oci, found.cloud, caller, poll_s=poll_s)
    with deployer.held():
        removed = list(_removed(found, deployer, poll_s))
    kept = _proved(found, caller, poll_s)
    return OciDown(
        found.spec.name, found.cloud.region, bool(removed), tuple(removed), tuple(each.text for each in kept)
    )


def _removed(found: OciInventory, deployer: Deployer, poll_s: float) -> Iterator[str]:
    """Remove the stacks that are to go; their names."""
    for part, stack in ((GRID, found.grid), (STORAGE, found.storage if found.with_data else None)):
        if stack is None:
            continue
        deployer.caller.go_on()
        if part == GRID and not found.with_data:
            layout = oci_layout(found.spec)
            shut_down(found.cloud, found.oci.compartment, layout, deployer.caller, poll_s)
        deployer.caller.say(f"{stack.display_name}: removing all that it has made")
        if part == STORAGE:
            empty(found.cloud, found.oci.compartment, bucket_name(found.spec.name), deployer.caller)
            _unprotect(found, deployer, stack)
        deployer.destroy(stack)
        yield str(stack.display_name)


def _unprotect(found: OciInventory, deployer: Deployer, stack: Any) -> None:  # noqa: ANN401
    """Let the storage be destroyed, which the user has asked for by naming its file systems."""
    files, _, _ = oci_files(found.spec)
    bare = unprotected(root_files(files, STORAGE), ROOT_FILE)
    name = stack_name(found.spec.name, STORAGE)
    deployer.put(stack, name, bare, {GRID_TAG: found.spec.name, PART_TAG: STORAGE}, {})


def _proved(found: OciInventory, caller: Caller, poll_s: float) -> list[OciLeftover]:
    """What is kept. Raises GridwrightError where more is left than is to be kept."""
    left: list[OciLeftover] = []
    for _ in range(_LOOKS):
        there = tagged(found.cloud, found.spec.name)
        keeps = found.storage is not None and not found.with_data
        left = [each for each in there if not (keeps and each.part == STORAGE)]
        if not left:
            return [each for each in there if each.type.lower() != STACK_TYPE]
        caller.pause(poll_s)
    raise environment_error(
        f"of grid {found.spec.name} is left, and may be billed: " + "; ".join(each.text for each in left),
        where=f"OCI, {found.cloud.region}",
        remedy="run the same command again, as the search may be minutes late; where the state lies "
        "elsewhere, bring it here first (oci.state); or remove it in the console",
    )
