"""Launch templates, and the machines that nothing replaces: login, head, nodes where the spec says so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from troposphere import GetAtt, Parameter, Ref, Tags, Template, ec2

from gridwright.catalog import Catalog, InstanceType
from gridwright.providers.aws.costs import ROOT_VOLUME, ROOT_VOLUME_SIZE
from gridwright.providers.aws.disk_pairs import partition
from gridwright.providers.aws.distribution import root_device
from gridwright.providers.aws.iam import profile_arn
from gridwright.providers.aws.layout import DEFAULT_VOLUME, AwsLayout, Machine, Role
from gridwright.providers.aws.names import SLOT_TAG, Export, lasting_tags, logical_id, tags
from gridwright.providers.aws.security_groups import groups_of_site, machines_group
from gridwright.providers.aws.user_data import UserData, exported
from gridwright.spec.buying import MaxPrice
from gridwright.spec.model import GridSpec, NodeGroup
from gridwright.spec.storage import INSTANCE_STORE, Disks
from gridwright.units import Bytes

UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id"
"""The name by which Canonical publishes its image; its documentation, Ubuntu on AWS, find images by SSM."""
BY_NAME = "resolve:ssm:"
"""What EC2 takes before the name of a parameter that has an image (EC2 User Guide, launch templates)."""
PLACEMENT = "Placement"
PARTITIONED = "ServerPartitions"
"""Logical ID of the placement group of servers in pairs."""
_FIRST_LETTER = ord("b")
_SECURITY_GROUPS = {
    Role.LOGIN: Export.LOGIN_GROUP,
    Role.HEAD: Export.HEAD_GROUP,
    Role.COMPUTE: Export.COMPUTE_GROUP,
}
_SUBNETS = {
    "public": Export.PUBLIC_SUBNET,
    "compute": Export.COMPUTE_SUBNET,
    "storage": Export.STORAGE_SUBNET,
}


@dataclass(frozen=True)
class Building:
    """What all parts of the grid stack are made from."""

    template: Template
    spec: GridSpec
    layout: AwsLayout
    catalog: Catalog
    after: tuple[str, ...]
    """Logical IDs of what has to be there before a machine starts."""

    def type_of(self, machine: Machine) -> InstanceType:
        """Its instance type, as the catalogue has it."""
        return self.catalog.instance(machine.instance, "aws")


def security_groups(building: Building, machine: Machine) -> list[Any]:
    """The security group of machines like this one, then those of the site."""
    role = machine.role
    own: str = _SECURITY_GROUPS.get(role, Export.STORAGE_GROUP)
    if role is Role.MACHINE:
        own = machines_group(machine.group)
    return [exported(building.spec, own), *groups_of_site(building.layout, machine)]


def subnet(building: Building, machine: Machine) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The subnet that a machine is in."""
    return exported(building.spec, _SUBNETS[machine.subnet])


def launch_template(building: Building, machine: Machine, name: str, data: UserData | None) -> str:
    """What machines like this one are started with; returns its logical ID.

    Without `data` it has none: a machine that stays gets them itself, so that other data do not replace it.
    """
    spec, aws, kind = building.spec, building.layout.aws, building.type_of(machine)
    # What changes while the grid is up would make another version, and replace the machine.
    marks = lasting_tags(spec, role=str(machine.role))
    # EC2 starts no machine whose template tags interfaces where it is given one that is there already.
    made = ("instance", "volume") if data is None else ("instance", "volume", "network-interface")
    tagged = [ec2.TagSpecifications(ResourceType=each, Tags=Tags(**marks)) for each in made]
    content: dict[str, Any] = {
        "ImageId": _image(building, machine, kind),
        "IamInstanceProfile": ec2.IamInstanceProfile(Arn=profile_arn(machine)),
        "MetadataOptions": ec2.MetadataOptions(
            HttpEndpoint="enabled", HttpTokens="required", HttpPutResponseHopLimit=1
        ),
        # Five-minute figures of CloudWatch cost nothing; Gridwright measures nodes itself.
        "Monitoring": ec2.Monitoring(Enabled=False),
        "BlockDeviceMappings": [_root(building, machine), *_devices(building, machine, kind)],
        "TagSpecifications": tagged,
    }
    if aws.key is not None:
        content["KeyName"] = aws.key
    if _is_ebs_optimized(kind) and data is not None:
        content["EbsOptimized"] = True
    if machine.role is Role.COMPUTE and not aws.hyperthreads and _has_threads(kind):
        content["CpuOptions"] = ec2.CpuOptions(CoreCount=kind.cores, ThreadsPerCore=1)
    if is_placed(building, machine):
        content["Placement"] = ec2.Placement(GroupName=Ref(PLACEMENT))
    elif machine.pair:
        content["Placement"] = ec2.Placement(GroupName=Ref(PARTITIONED), PartitionNumber=_partition(machine))
    content |= _bought(spec.nodes.get(machine.group) if machine.role is Role.COMPUTE else None)
    if data is not None:
        # That of a machine that stays is its own property, which changes while it is stopped for a moment.
        content["InstanceType"] = machine.instance
        content["UserData"] = data.property()
        content["NetworkInterfaces"] = [_interface(building, machine)]
    title = template_id(name)
    building.template.add_resource(
        ec2.LaunchTemplate(
            title,
            LaunchTemplateData=ec2.LaunchTemplateData(**content),
            TagSpecifications=[
                ec2.TagSpecifications(ResourceType="launch-template", Tags=Tags(**marks)),
            ],
        )
    )
    return title


def _bought(group: NodeGroup | None) -> dict[str, Any]:
    """How machines of a group of nodes are bought, where that is not on demand in any capacity that is open.

    Auto Scaling takes spot requests of one time only (Amazon EC2 Auto Scaling User Guide, launch templates).
    """
    found: dict[str, Any] = {}
    if group is not None and group.spot:
        most = {"MaxPrice": f"{group.spot.max_price:g}"} if isinstance(group.spot, MaxPrice) else {}
        found["InstanceMarketOptions"] = ec2.InstanceMarketOptions(
            MarketType="spot", SpotOptions=ec2.SpotOptions(SpotInstanceType="one-time", **most)
        )
    desired = group.reservation if group is not None else None
    if desired in ("open", "none"):
        found["CapacityReservationSpecification"] = ec2.CapacityReservationSpecification(
            CapacityReservationPreference=desired
        )
    elif desired is not None:
        key = "CapacityReservationId" if desired.startswith("cr-") else "CapacityReservationResourceGroupArn"
        found["CapacityReservationSpecification"] = ec2.CapacityReservationSpecification(
            CapacityReservationTarget=ec2.CapacityReservationTarget(**{key: desired})
        )
    return found


def template_id(name: str) -> str:
    """Logical ID of the launch template of a group or of a machine, by theirs."""
    return logical_id(name, "Template")


def machine_id(machine: Machine) -> str:
    """Logical ID of a machine that has an address for good: Login, Head, or the node's own name."""
    return logical_id(str(machine.role) if machine.role in (Role.LOGIN, Role.HEAD) else machine.name)


def add_machine(building: Building, machine: Machine, data: UserData) -> str:
    """A machine with its address for good, which stops and starts again when its user data change."""
    title = machine_id(machine)
    template = launch_template(building, machine, title, None)
    interface = _network_interface(building, machine)
    after = list(building.after)
    if machine.role in (Role.HEAD, Role.LOGIN, Role.COMPUTE, Role.MACHINE):
        # Made after the servers, and so ended before them: what it has not written yet finds them.
        after += [machine_id(each) for each in building.layout.of_role(Role.NSD)]
    if machine.role is Role.LOGIN and building.layout.aws.has_public_login:
        after.append(_public_address(building, interface))
    building.template.add_resource(
        ec2.Instance(
            title,
            DependsOn=after,
            LaunchTemplate=ec2.LaunchTemplateSpecification(
                LaunchTemplateId=Ref(template),
                Version=GetAtt(template, "LatestVersionNumber"),
            ),
            InstanceType=machine.instance,
            **({"EbsOptimized": True} if _is_ebs_optimized(building.type_of(machine)) else {}),
            NetworkInterfaces=[
                ec2.NetworkInterfaceProperty(DeviceIndex="0", NetworkInterfaceId=Ref(interface))
            ],
            UserData=data.property(),
            Tags=Tags(**tags(building.spec, role=str(machine.role), slot=machine.name), Name=machine.name),
        )
    )
    return title


def _network_interface(building: Building, machine: Machine) -> str:
    title = logical_id(machine.name if machine.replaced else machine_id(machine), "Interface")
    marks = {**tags(building.spec, role=str(machine.role)), SLOT_TAG: machine.name}
    building.template.add_resource(
        ec2.NetworkInterface(
            title,
            Description=f"{machine.name} of grid {building.spec.name}",
            GroupSet=security_groups(building, machine),
            PrivateIpAddress=str(machine.address),
            SubnetId=subnet(building, machine),
            Tags=Tags(**marks, Name=machine.name),
        )
    )
    return title


def add_interfaces(building: Building, machines: tuple[Machine, ...]) -> list[str]:
    """The interfaces that nodes of an Auto Scaling group claim, each with the address of one node."""
    return [_network_interface(building, machine) for machine in machines]


def _public_address(building: Building, interface: str) -> str:
    """An address of its own, which stays when the login node stops, and is there before it starts."""
    marks = tags(building.spec, role=str(Role.LOGIN))
    building.template.add_resource(
        ec2.EIP("LoginAddress", Domain="vpc", Tags=Tags(**marks, Name=f"{building.spec.name}-login"))
    )
    title = "LoginAddressOfInterface"
    building.template.add_resource(
        ec2.EIPAssociation(
            title, AllocationId=GetAtt("LoginAddress", "AllocationId"), NetworkInterfaceId=Ref(interface)
        )
    )
    return title


def is_placed(building: Building, machine: Machine) -> bool:
    """Whether it is in the placement group, which takes no burstable types (EC2 User Guide)."""
    if not building.layout.aws.placement_group or machine.role in (
        Role.LOGIN,
        Role.HEAD,
        Role.MACHINE,
        Role.NSD,
    ):
        return False
    return not building.type_of(machine).burstable_cpu


def _partition(machine: Machine) -> int:
    """Servers of a pair follow each other by their numbers, and so are never in one partition."""
    return partition(int(machine.name.rpartition(str(machine.role))[2]))


def image_of(chosen: str | None, kind: InstanceType) -> str:
    """An image, or the name of a parameter that EC2 looks up when it starts a machine.

    CloudFormation would look it up at each update, and replace machines whenever a new image is published.
    """
    named = chosen or UBUNTU.format(_architecture(kind))
    return named if named.startswith("ami-") else f"{BY_NAME}{named}"


def image_parameter(role: Role, kind: InstanceType) -> str:
    """The parameter of the grid stack that has the image of such machines, where it has a name."""
    return f"{'Storage' if role.serves_files else 'Compute'}Image{_architecture(kind).capitalize()}"


def _architecture(kind: InstanceType) -> str:
    return "arm64" if kind.architecture == "arm64" else "amd64"


def _image(building: Building, machine: Machine, kind: InstanceType) -> Any:  # noqa: ANN401 - a function
    """The image: a parameter where it is known by a name, so that `up` can keep what the name stood for.

    Who deploys the template by hand and gives none has EC2 look the name up for each machine.
    """
    images = building.layout.aws.images
    named = image_of(images.storage if machine.role.serves_files else images.compute, kind)
    if not named.startswith(BY_NAME):
        return named
    title = image_parameter(machine.role, kind)
    if title not in building.template.parameters:
        # A parameter of the type AWS::EC2::Image::Id, which cfn-lint asks for, takes no name.
        building.template.set_metadata({"cfn-lint": {"config": {"ignore_checks": ["W2506"]}}})
        building.template.add_parameter(
            Parameter(
                title,
                Type="String",
                Default=named,
                AllowedPattern=f"ami-[0-9a-f]{{8,17}}|{re.escape(BY_NAME)}/.+",
                Description="Image that machines start from; gridwright up keeps the one of the first up",
            )
        )
    return Ref(title)


def _interface(building: Building, machine: Machine) -> ec2.NetworkInterfaces:
    adapter = machine.role is Role.COMPUTE and building.layout.aws.efa
    return ec2.NetworkInterfaces(
        DeviceIndex=0,
        AssociatePublicIpAddress=False,
        DeleteOnTermination=True,
        Groups=security_groups(building, machine),
        **({"InterfaceType": "efa"} if adapter else {}),
    )


def _is_ebs_optimized(kind: InstanceType) -> bool:
    return kind.ebs is not None and kind.ebs.dedicated


def _has_threads(kind: InstanceType) -> bool:
    return kind.vcpus == 2 * kind.cores and not kind.bare_metal


def _root(building: Building, machine: Machine) -> ec2.LaunchTemplateBlockDeviceMapping:
    device = root_device(building.layout.aws, serves_files=machine.role.serves_files)
    return _volume(building, device, Disks(type=ROOT_VOLUME, size=root_size(building.spec, machine)))


def root_size(spec: GridSpec, machine: Machine) -> Bytes:
    """Of the volume that a machine starts from."""
    group = spec.machines.get(machine.group) if machine.role is Role.MACHINE else None
    return (group.disk if group else None) or ROOT_VOLUME_SIZE


def _devices(
    building: Building, machine: Machine, kind: InstanceType
) -> Iterator[ec2.LaunchTemplateBlockDeviceMapping]:
    """Disks inside machines of the Xen generation, which are not there unless asked for, then volumes.

    NVMe disks need no mapping (EC2 User Guide, block device mappings).
    """
    letter = _FIRST_LETTER
    store = kind.instance_store
    if store is not None and not store.nvme:
        for number in range(store.disks):
            yield ec2.LaunchTemplateBlockDeviceMapping(
                DeviceName=f"/dev/sd{chr(letter)}", VirtualName=f"ephemeral{number}"
            )
            letter += 1
    if machine.role is not Role.COMPUTE:
        return
    for filesystem in building.spec.filesystems.values():
        disks = filesystem.node_disks
        if disks is None or disks.type == INSTANCE_STORE:
            continue
        for _ in range(disks.count or 1):
            yield _volume(building, f"/dev/sd{chr(letter)}", disks)
            letter += 1


def _volume(building: Building, device: str, disks: Disks) -> ec2.LaunchTemplateBlockDeviceMapping:
    """A volume that goes with its machine."""
    content: dict[str, Any] = {
        "VolumeType": disks.type,
        "VolumeSize": -(-(disks.size or DEFAULT_VOLUME) // 2**30),
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    if building.layout.aws.kms_key is not None:
        content["KmsKeyId"] = building.layout.aws.kms_key
    if disks.iops is not None:
        content["Iops"] = disks.iops
    if disks.throughput is not None:
        content["Throughput"] = math.ceil(disks.throughput.bytes_per_s / 2**20)
    return ec2.LaunchTemplateBlockDeviceMapping(DeviceName=device, Ebs=ec2.EBSBlockDevice(**content))
