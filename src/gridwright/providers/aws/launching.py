"""Launch templates, and the machines that nothing replaces: login, head, nodes where the spec says so."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from troposphere import AWSObject, FindInMap, GetAtt, Output, Parameter, Ref, Sub, Tags, Template, ec2
from troposphere.cloudformation import Stack

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError, Problem
from gridwright.providers.aws.costs import ROOT_VOLUME, ROOT_VOLUME_SIZE
from gridwright.providers.aws.iam import profile_arn
from gridwright.providers.aws.layout import (
    DEFAULT_VOLUME,
    PARTITIONS,
    ROLE,
    AwsLayout,
    Machine,
    Role,
    paired_servers,
    partition,
    root_device,
)
from gridwright.providers.aws.machine_files import UserData, import_value
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG, Export, lasting_tags, logical_id, tags
from gridwright.providers.aws.network import deletion_policy, exported, groups_of_site, machines_group
from gridwright.providers.aws.stacks import template_text
from gridwright.spec.filesystem import INSTANCE_STORE, Disks
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec, NodeGroup
from gridwright.spec.power import MaxPrice
from gridwright.units import Bytes

# The parameter of the grid stack by which `stop` and `start` set the sizes of its Auto Scaling groups.

PARAMETER = "Running"
"""Which machines of groups there are: all, only the servers of Lustre, or none."""
ALL, SERVERS, NONE = "all", "servers", "none"
_SIZES = "Sizes"
_MOST = "Most"


def add_parameter(template: Template, groups: Mapping[str, tuple[Machine, ...]]) -> None:
    """The parameter, and the size of each group by it; `groups` has machines by their group's logical ID."""
    what = "Which machines of groups there are"
    template.add_parameter(
        Parameter(
            PARAMETER,
            Type="String",
            Default=ALL,
            AllowedValues=[ALL, SERVERS, NONE],
            Description=f"{what}; gridwright stop and start set it",
        )
    )
    template.add_output(Output(PARAMETER, Description=what, Value=Ref(PARAMETER)))
    if groups:
        template.add_mapping(
            _SIZES, {running: dict(_sizes(groups, running)) for running in (ALL, SERVERS, NONE)}
        )


def _sizes(groups: Mapping[str, tuple[Machine, ...]], running: str) -> Iterator[tuple[str, str]]:
    for title, machines in groups.items():
        there = running == ALL or (running == SERVERS and machines[0].role.serves_lustre)
        yield title, str(sum(not each.powered for each in machines) if there else 0)
        if any(each.powered for each in machines):
            yield f"{title}{_MOST}", str(len(machines) if there else 0)


def most_of(title: str) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The most machines of a group whose nodes are powered on and off: none while the grid is stopped."""
    return FindInMap(_SIZES, Ref(PARAMETER), f"{title}{_MOST}")


def size_of(title: str) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The size of a group: all that is always on, or nothing while the grid is stopped."""
    return FindInMap(_SIZES, Ref(PARAMETER), title)


# Volumes of servers of file systems, as the storage stack has them: encrypted, and kept when it goes.

GIB = 2**30
MIB = 2**20


def data_volume(
    layout: AwsLayout,
    logical: str,
    disks: Disks,
    marks: Mapping[str, str],
    *,
    deletable: bool,
    shared: bool = False,
) -> ec2.Volume:
    """One volume, by the logical ID and the tags that it has; `shared` lets two machines attach it."""
    return ec2.Volume(
        logical,
        AvailabilityZone=layout.aws.zone,
        Size=math.ceil((disks.size or DEFAULT_VOLUME) / GIB),
        Tags=Tags(dict(marks)),
        **_volume_properties(layout, disks),
        **({"MultiAttachEnabled": True} if shared else {}),
        **deletion_policy(not deletable),
    )


def _volume_properties(layout: AwsLayout, disks: Disks) -> dict[str, object]:
    """Properties that every volume has, whatever makes it."""
    chosen: dict[str, object] = {"VolumeType": disks.type, "Encrypted": True}
    if disks.iops is not None:
        chosen["Iops"] = disks.iops
    if disks.throughput is not None:
        # AWS counts in whole MiB/s: never less than what the spec asks for.
        chosen["Throughput"] = math.ceil(disks.throughput.bytes_per_s / MIB)
    if layout.aws.kms_key is not None:
        chosen["KmsKeyId"] = layout.aws.kms_key
    return chosen


def disk_problems(spec: GridSpec, path: tuple[str, ...], disks: Disks, catalog: Catalog) -> Iterator[Problem]:
    """What the catalogue refuses of volumes; `path` is that of `disks` in the spec."""
    rate = disks.throughput.bytes_per_s if disks.throughput else None
    try:
        catalog.volume(disks.type, "aws").check(disks.size or DEFAULT_VOLUME, disks.iops, rate)
    except GridwrightError as error:
        for problem in error.problems:
            place = (*path, problem.field) if problem.field else (*path, "type")
            yield problem_at(spec, place, problem.what, problem.remedy or "choose another volume")


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
    return [import_value(building.spec, own), *groups_of_site(building.layout, machine)]


def subnet(building: Building, machine: Machine) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The subnet that a machine is in."""
    return import_value(building.spec, _SUBNETS[machine.subnet])


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
            TagSpecifications=[ec2.TagSpecifications(ResourceType="launch-template", Tags=Tags(**marks))],
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
                LaunchTemplateId=Ref(template), Version=GetAtt(template, "LatestVersionNumber")
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
    volume = ec2.EBSBlockDevice(
        VolumeSize=math.ceil((disks.size or DEFAULT_VOLUME) / GIB),
        DeleteOnTermination=True,
        **_volume_properties(building.layout, disks),
    )
    return ec2.LaunchTemplateBlockDeviceMapping(DeviceName=device, Ebs=volume)


# Volumes that both servers of a pair attach, and their attachments.
#
# The volumes are in the storage stack and stay. An attachment is in the grid stack, and CloudFormation lets
# go of it without a call when it leaves: a volume is never taken from a server that runs. It goes with its
# instance, whose system shuts the daemon of the file system down first.


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
                    VolumeId=import_value(building.spec, volume.logical_id),
                    DeletionPolicy="Retain",
                    UpdateReplacePolicy="Retain",
                )
            )


# Interfaces that nodes claim: in the grid stack, or in nested stacks if there are too many for one.

MOST_IN_GRID_STACK = 400
"""Of the 500 resources that a stack can have: what else is in the grid stack has room beside them."""
MOST_IN_NESTED_STACK = 450
_ROLE = "interfaces"


@dataclass(frozen=True, slots=True)
class NestedTemplate:
    """The template of a nested stack, read from the site bucket under a key that names its content."""

    number: int
    text: str

    @property
    def title(self) -> str:
        """Logical ID of the nested stack."""
        return f"Interfaces{self.number}"

    @property
    def file(self) -> str:
        """Its name among the files of `render`."""
        return f"interfaces-{self.number}.template.yaml"

    @property
    def key(self) -> str:
        """Its key in the site bucket."""
        return f"templates/{hashlib.sha256(self.text.encode()).hexdigest()}.yaml"


def claiming_nodes(layout: AwsLayout) -> tuple[Machine, ...]:
    """Nodes, and machines beside them, that are replaced, and so claim their interfaces."""
    return tuple(each for each in layout.of_role(Role.COMPUTE, Role.MACHINE) if each.replaced)


def nested_templates(building: Building) -> tuple[NestedTemplate, ...]:
    """Those that the grid stack needs beside itself: none, as a rule."""
    nodes = claiming_nodes(building.layout)
    if len(nodes) <= MOST_IN_GRID_STACK:
        return ()
    starts = range(0, len(nodes), MOST_IN_NESTED_STACK)
    return tuple(
        _nested(building, number, nodes[start : start + MOST_IN_NESTED_STACK])
        for number, start in enumerate(starts, start=1)
    )


def add_node_interfaces(building: Building, nested: tuple[NestedTemplate, ...]) -> list[str]:
    """Add all interfaces that nodes claim: the nested stacks where there are any, else each by itself.

    Returns logical IDs of what has to be there before nodes start.
    """
    if not nested:
        return add_interfaces(building, claiming_nodes(building.layout))
    marks = tags(building.spec, role=_ROLE)
    for each in nested:
        url = f"https://${{Bucket}}.s3.${{AWS::Region}}.${{AWS::URLSuffix}}/{each.key}"
        building.template.add_resource(
            Stack(
                each.title,
                TemplateURL=Sub(url, Bucket=import_value(building.spec, Export.SITE_BUCKET)),
                Tags=Tags(**marks),
            )
        )
    return [each.title for each in nested]


def _nested(building: Building, number: int, nodes: tuple[Machine, ...]) -> NestedTemplate:
    first, last = nodes[0].name, nodes[-1].name
    template = Template(f"Grid {building.spec.name}: interfaces of nodes {first} to {last}")
    template.set_version("2010-09-09")
    add_interfaces(replace(building, template=template), nodes)
    return NestedTemplate(number, template_text(template))
