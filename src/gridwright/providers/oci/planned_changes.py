"""What a plan of Terraform would do, from its JSON (Terraform, JSON output format: resource_changes)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_NAMED = 4
"""So many changes of a type are told one by one."""
VOLUME = "oci_core_volume"
INSTANCE = "oci_core_instance"
HOLDS_DATA = frozenset(
    {
        VOLUME,
        "oci_objectstorage_bucket",
        "oci_file_storage_file_system",
        "oci_lustre_file_storage_lustre_file_system",
    }
)
"""Types of resources that are empty when they are made anew."""
_VERBS = {
    ("create",): "make",
    ("update",): "change",
    ("delete",): "remove",
    ("delete", "create"): "make anew",
    ("create", "delete"): "make anew",
}


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One resource that a plan changes."""

    stack: str
    address: str
    type: str
    verb: str
    """make, change, remove, or make anew."""
    name: str
    """As OCI shows it."""

    @property
    def destroys_data(self) -> bool:
        """Whether what it holds is lost."""
        return self.type in HOLDS_DATA and self.verb in ("remove", "make anew")

    @property
    def text(self) -> str:
        """On one line."""
        return f"{self.verb} {self.address}{' WITH ITS DATA' if self.destroys_data else ''}"


def planned_changes(stack: str, plan: Mapping[str, Any]) -> tuple[PlannedChange, ...]:
    """Every change of the plan, in its order."""
    return tuple(_changes(stack, plan))


def _changes(stack: str, plan: Mapping[str, Any]) -> Iterator[PlannedChange]:
    for each in plan.get("resource_changes", ()):
        actions = tuple(each["change"]["actions"])
        if each.get("mode") == "data" or actions in (("no-op",), ("read",)):
            continue
        state = each["change"].get("before") or each["change"].get("after") or {}
        name = str(state.get("display_name") or state.get("name") or each["address"])
        # Actions of a later Terraform are taken for the worst that they can be.
        yield PlannedChange(stack, each["address"], each["type"], _VERBS.get(actions, "make anew"), name)


def change_lines(changes: Sequence[PlannedChange]) -> Iterator[str]:
    """A line for each change that loses data or is one of few of its type, and a line for the others."""
    alike = Counter((each.verb, each.type) for each in changes)
    counted = set()
    for each in changes:
        key = (each.verb, each.type)
        if each.destroys_data or alike[key] <= MOST_NAMED:
            yield each.text
        elif key not in counted:
            counted.add(key)
            yield f"{each.verb} {alike[key]} {each.type}: {each.name} and others"


def changed_outputs(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Outputs that would differ: a plan may consist of these alone."""
    changes = plan.get("output_changes", {})
    return tuple(sorted(name for name, each in changes.items() if each["actions"] != ["no-op"]))


def is_of(name: str, grid: str, filesystem: str) -> bool:
    """Whether a resource of this name is of a file system: itself, or a volume of it.

    Volumes are GRID-NAME-pPAIR-vNUMBER or GRID-NAME-pPAIR-POOL-vNUMBER where pairs share them, and
    GRID-NAME-ROLESERVER-vNUMBER elsewhere.
    """
    whole = f"{grid}-{filesystem}"
    volume = rf"{re.escape(whole)}-(?:p|mgs|mds|oss)\d+(?:-[A-Za-z0-9]+)?-v\d+"
    return name in (whole, filesystem) or re.fullmatch(volume, name) is not None
