"""Persistent machines keep what lies on their disks: an update never takes one away by itself."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Problem
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


def persistent_machines(spec: GridSpec) -> dict[str, str]:
    """Names of machines beside the nodes that are never replaced, with their group."""
    return {
        name: group
        for group, machines in spec.machines.items()
        if not machines.replace
        for name in machines.machine_names(group)
    }


def lost_machines(deployed: GridSpec | None, desired: GridSpec, replace: frozenset[str]) -> Iterator[Problem]:
    """Those of the grid as it is deployed that the spec has no more; `replace` names groups that may go."""
    if deployed is None:
        return
    staying = persistent_machines(desired)
    gone = {name: group for name, group in persistent_machines(deployed).items() if name not in staying}
    for group in dict.fromkeys(gone.values()):
        if group in replace:
            continue
        names = [name for name, each in gone.items() if each == group]
        disks = "its disk" if len(names) == 1 else "their disks"
        what = f"{', '.join(names)} would go, with what lies on {disks}"
        place = ("machines", group, "count") if group in desired.machines else ("machines",)
        yield problem_at(
            desired,
            place,
            what,
            f"write it as it was; or save what is needed, and run gridwright up with --replace {group}",
        )
