"""Which instance is which machine of the layout: by the stack's resources, and by the table of claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gridwright.providers.aws.boot_reports import BOOT, BootReport
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import ROLE_TAG, claims_table, logical_id
from gridwright.providers.aws.roll.aws import ROW
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.status_result import OFF, Claim, MachineStatus
from gridwright.providers.aws.tagged import of_grid, tags_of
from gridwright.spec.model import GridSpec

GONE = ("terminated", "shutting-down")
"""States of an instance that never runs again."""
_OF_ROLE = {Role.LOGIN: "Login", Role.HEAD: "Head"}


def rows(cloud: Cloud, spec: GridSpec) -> list[Mapping[str, Any]]:
    """All of the table of claims, as DynamoDB has it; empty where there is no table."""
    try:
        return list(cloud.listed("dynamodb", "scan", "Items", TableName=claims_table(spec)))
    except CloudError as error:
        if error.code == "ResourceNotFoundException":
            return []
        raise


def claims(items: Iterable[Mapping[str, Any]]) -> dict[str, Claim]:
    """The claims among the rows of the table, by machine."""
    found = {}
    for item in items:
        name = item["slot"]["S"]
        if name.startswith(BOOT) or name == ROW:
            continue
        volumes = item.get("volumes", {}).get("M", {})
        owner = item.get("owner", {}).get("S")
        found[name] = Claim(name, owner, tuple(sorted(volumes)), int(item.get("token", {}).get("N", 0)))
    return found


def instances(cloud: Cloud, spec: GridSpec) -> dict[str, Mapping[str, Any]]:
    """Instances of a grid that are not gone, by ID."""
    reservations = cloud.listed("ec2", "describe_instances", "Reservations", Filters=of_grid(spec.name))
    return {
        each["InstanceId"]: each
        for reservation in reservations
        for each in reservation["Instances"]
        if each["State"]["Name"] not in GONE
    }


def machines(
    layout: AwsLayout,
    found: Mapping[str, Mapping[str, Any]],
    resources: Mapping[str, str],
    claimed: Mapping[str, Claim],
    boots: Mapping[str, BootReport],
) -> tuple[MachineStatus, ...]:
    """Every machine of a grid in the order of the layout, then instances that are none of them yet."""
    owners = {each.name: _instance_of(each, resources, claimed) for each in layout.machines}
    powers = any(each.powered for each in layout.machines)
    return (
        *_of_layout(layout, found, owners, boots),
        *_unclaimed(found, set(owners.values()), boots, powers=powers),
    )


def _of_layout(
    layout: AwsLayout,
    found: Mapping[str, Mapping[str, Any]],
    owners: Mapping[str, str | None],
    boots: Mapping[str, BootReport],
) -> Iterator[MachineStatus]:
    for machine in layout.machines:
        owner = owners[machine.name]
        instance = found.get(owner or "")
        yield MachineStatus(
            name=machine.name,
            role=machine.role.value,
            type=str(instance["InstanceType"]) if instance else machine.instance,
            address=str(machine.address),
            instance=owner if instance else None,
            state=str(instance["State"]["Name"]) if instance else OFF if machine.powered else "missing",
            public_address=instance.get("PublicIpAddress") if instance else None,
            set_up=_set_up(boots.get(owner or "")) if instance else "",
            powered=machine.powered,
        )


def _unclaimed(
    found: Mapping[str, Mapping[str, Any]],
    known: set[str | None],
    boots: Mapping[str, BootReport],
    *,
    powers: bool,
) -> Iterator[MachineStatus]:
    for name, instance in found.items():
        if name not in known:
            state = str(instance["State"]["Name"])
            yield MachineStatus(
                name="(no name yet)",
                role=tags_of(instance).get(ROLE_TAG, ""),
                type=str(instance["InstanceType"]),
                address=str(instance.get("PrivateIpAddress", "")),
                instance=name,
                state="booting" if state == "running" else state,
                set_up=_set_up(boots.get(name)),
                powered=powers and tags_of(instance).get(ROLE_TAG) == Role.COMPUTE,
            )


def _set_up(report: BootReport | None) -> str:
    return report.text if report else "nothing told yet"


def _instance_of(machine: Machine, resources: Mapping[str, str], claimed: Mapping[str, Claim]) -> str | None:
    if machine.replaced:
        claim = claimed.get(machine.name)
        return claim.owner if claim else None
    return resources.get(_OF_ROLE.get(machine.role) or logical_id(machine.name))
