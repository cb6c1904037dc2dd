"""Volumes and network interfaces of Lustre servers: what stays when a server is replaced.

Each server has an interface with its fixed address, so that its NID stays, and each target has a volume of
its own. A new instance finds them by their tags, and claims them.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, Ref, Tags, ec2

from gridwright.catalog.contents import Catalog
from gridwright.errors import Problem
from gridwright.providers.aws.data_volumes import data_volume, disk_problems
from gridwright.providers.aws.layout import AwsLayout, Machine
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG, logical_id, tags
from gridwright.providers.aws.network import subnet_of
from gridwright.providers.aws.security_groups import Group, groups_of_site
from gridwright.providers.lustre_servers import Target
from gridwright.spec.model import GridSpec


def interface_id(machine: Machine) -> str:
    """Logical ID of the interface with a machine's fixed address."""
    return logical_id(machine.name, "Interface")


def lustre_resources(
    spec: GridSpec, layout: AwsLayout, filesystem: str, *, deletable: bool
) -> Iterator[AWSObject]:
    """Interfaces and volumes of all servers of one Lustre."""
    for machine in layout.servers_of(filesystem):
        yield _interface(spec, layout, machine)
        for target in machine.targets:
            yield _volume(spec, layout, machine, target, deletable=deletable)


def volume_problems(
    spec: GridSpec, layout: AwsLayout, filesystem: str, catalog: Catalog
) -> Iterator[Problem]:
    """What the catalogue refuses of the volumes of one Lustre, once for each role of its servers."""
    seen: set[str] = set()
    for machine in layout.servers_of(filesystem):
        for target in machine.targets[: machine.role not in seen]:
            seen.add(machine.role)
            path = ("filesystems", filesystem, str(machine.role), "disks")
            yield from disk_problems(spec, path, target.disks, catalog)


def _interface(spec: GridSpec, layout: AwsLayout, machine: Machine) -> ec2.NetworkInterface:
    return ec2.NetworkInterface(
        interface_id(machine),
        Description=f"Fixed address of {machine.name}, whichever instance it is",
        SubnetId=subnet_of(layout, machine.subnet),
        PrivateIpAddress=str(machine.address),
        GroupSet=[Ref(Group.STORAGE), *groups_of_site(layout, machine)],
        Tags=Tags(
            tags(spec, role=machine.role) | {SLOT_TAG: machine.name, "Name": f"{spec.name} {machine.name}"}
        ),
    )


def _volume(
    spec: GridSpec, layout: AwsLayout, machine: Machine, target: Target, *, deletable: bool
) -> ec2.Volume:
    marks = {SLOT_TAG: machine.name, TARGET_TAG: target.name, "Name": f"{spec.name} {target.name}"}
    return data_volume(
        layout,
        logical_id(machine.name, target.name),
        target.disks,
        tags(spec, role=machine.role) | marks,
        deletable=deletable,
    )
