"""Machines that a change of the spec would give another address, though they stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.errors import Problem
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import SLOT_TAG
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


def moved_addresses(
    spec: GridSpec, layout: AwsLayout, deployed: Mapping[str, Any], replace: frozenset[str]
) -> Iterator[Problem]:
    """Each group of machines that would move from its deployed addresses, but of file systems made anew.

    An interface that is in use cannot be replaced, and clients know a Lustre server by its address: half-way
    through an update AWS would refuse the one, and the other would be another server.
    """
    had = dict(_addresses(deployed))
    first: dict[str, tuple[Machine, int]] = {}
    for machine in layout.machines:
        if had.get(machine.name, str(machine.address)) != str(machine.address):
            kept, others = first.get(machine.group, (machine, -1))
            first[machine.group] = kept, others + 1
    for group, (machine, others) in first.items():
        if group in replace:
            continue
        more = f", and {others} more of {group} would move, too" if others else ""
        path, remedy = _where(spec, machine, had[machine.name])
        yield problem_at(
            spec,
            path,
            f"{machine.name} is at {had[machine.name]}, and would be at {machine.address} as the spec is now"
            f"{more}: machines that are up keep their addresses",
            remedy,
        )


_NODES = (
    "leave the groups before it as large as they are, and in their order, and add a group behind it for what "
    "is new; or run gridwright down, which keeps data, and then up"
)


def _where(spec: GridSpec, machine: Machine, address: str) -> tuple[tuple[str, ...], str]:
    """The field that decides on its address, and what to write."""
    if machine.role.serves_files:
        return ("filesystems", machine.group), _servers(machine.group)
    if machine.role is Role.MACHINE:
        return ("machines", machine.group), f"write address: {address} for it"
    return (("nodes", machine.group) if machine.group in spec.nodes else ("aws",)), _NODES


def _servers(filesystem: str) -> str:
    return (
        f"leave what stands before it as it is; or run gridwright up with --replace {filesystem}: it begins "
        f"empty then, and what was is kept, and billed, until gridwright down --delete-data {filesystem}"
    )


def _addresses(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names of machines with the addresses of their interfaces."""
    for each in template.get("Resources", {}).values():
        if each.get("Type") != "AWS::EC2::NetworkInterface":
            continue
        properties = each.get("Properties", {})
        tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
        if SLOT_TAG in tags and "PrivateIpAddress" in properties:
            yield tags[SLOT_TAG], properties["PrivateIpAddress"]
