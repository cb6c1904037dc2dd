"""Volumes that both servers of a pair attach, and their attachments.

The volumes are in the storage stack and stay. An attachment is in the grid stack, and CloudFormation lets go
of it without a call when it leaves: a volume is never taken from a server that runs. It goes with its
instance, whose system shuts the daemon of the file system down first.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, Output, Ref, Tags, ec2

from gridwright.catalog.contents import Catalog
from gridwright.errors import Problem
from gridwright.providers.aws.data_volumes import data_volume, disk_problems
from gridwright.providers.aws.disk_pairs import PARTITIONS, ROLE, paired_servers
from gridwright.providers.aws.exports import exported
from gridwright.providers.aws.launching import PARTITIONED, Building, machine_id
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG, lasting_tags, tags
from gridwright.providers.aws.user_data import exported as imported
from gridwright.spec.model import GridSpec


def pair_volume_resources(
    spec: GridSpec, layout: AwsLayout, filesystem: str, *, deletable: bool
) -> Iterator[AWSObject]:
    """Volumes of one file system, for the storage stack."""
    for each in layout.volumes:
        if each.filesystem == filesystem:
            marks = {
                SLOT_TAG: each.slot,
                TARGET_TAG: each.name,
                "Name": f"{spec.name} {filesystem} {each.name}",
            }
            yield data_volume(
                layout,
                each.logical_id,
                each.disks,
                tags(spec, role=ROLE) | marks,
                deletable=deletable,
                shared=True,
            )


def pair_volume_outputs(spec: GridSpec, layout: AwsLayout, filesystem: str) -> Iterator[Output]:
    """The ID of each volume: while a server attaches it, AWS removes it from no stack."""
    for each in layout.volumes:
        if each.filesystem == filesystem:
            what = f"Volume {each.name} of {filesystem}."
            yield exported(spec, each.logical_id, Ref(each.logical_id), what)


def pair_volume_problems(spec: GridSpec, filesystem: str, catalog: Catalog) -> Iterator[Problem]:
    """What the catalogue refuses of the volumes of one file system."""
    servers = paired_servers(spec).get(filesystem)
    if servers is not None and servers.disks is not None:
        yield from disk_problems(spec, ("filesystems", filesystem, ROLE, "disks"), servers.disks, catalog)


def add_partitions(building: Building) -> None:
    """The placement group that puts servers of a pair into different racks."""
    building.template.add_resource(
        ec2.PlacementGroup(
            PARTITIONED,
            Strategy="partition",
            PartitionCount=PARTITIONS,
            Tags=Tags(**lasting_tags(building.spec, role="placement")),
        )
    )


def add_attachments(building: Building) -> None:
    """Each volume at both servers of its pair, under one name."""
    for machine in building.layout.machines:
        for volume in building.layout.volumes_of(machine.name):
            building.template.add_resource(
                ec2.VolumeAttachment(
                    volume.attachment_id(machine.name),
                    Device=volume.attached_as,
                    InstanceId=Ref(machine_id(machine)),
                    VolumeId=imported(building.spec, volume.logical_id),
                    DeletionPolicy="Retain",
                    UpdateReplacePolicy="Retain",
                )
            )
