"""`down`: destroys the stack of the grid; storage stays unless its file systems are named.

What `down` of a grid on OCI did; nothing here calls OCI.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.errors import environment_error, input_error
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.resource_manager import POLL_S, Deployer, root_files, unprotected
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.layout import GRID, GRID_TAG, PART_TAG, STORAGE, oci_layout, stack_name
from gridwright.providers.oci.leftovers import STACK_TYPE, OciLeftover, empty, tagged
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.stopping import shut_down
from gridwright.providers.oci.terraform.boot import bucket_name
from gridwright.providers.oci.up import section_of
from gridwright.providers.provider import Caller
from gridwright.spec.model import GridSpec


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
        if caller.stop.wait(poll_s):
            raise KeyboardInterrupt
    raise environment_error(
        f"of grid {found.spec.name} is left, and may be billed: " + "; ".join(each.text for each in left),
        where=f"OCI, {found.cloud.region}",
        remedy="run the same command again, as the search may be minutes late; where the state lies "
        "elsewhere, bring it here first (oci.state); or remove it in the console",
    )
