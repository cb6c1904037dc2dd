"""The storage stack's network: subnets, security groups, endpoints, and the table of claims."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from troposphere import AWSObject, GetAtt, Output, Ref, Sub, Tags, Template, dynamodb, ec2, route53
from troposphere import Export as StackExport

from gridwright.filesystems import kind_of
from gridwright.filesystems.lustre_client.fields import LNET
from gridwright.filesystems.provided import ManagedLustre
from gridwright.providers.aws.layout import AwsLayout, Machine, Role, aws_section, paired_servers
from gridwright.providers.aws.names import Export, claims_table, logical_id, storage_stack, tags
from gridwright.providers.aws.section import Aws, depot_place
from gridwright.providers.file_servers import built_lustres, shared_disk_file_systems
from gridwright.schedulers import scheduler_kind as kind_of_scheduler
from gridwright.schedulers.machines import GridPart
from gridwright.services.ports import EPHEMERAL, Ports
from gridwright.spec.model import GridSpec

# What becomes of a resource that holds data when it leaves the stack.


def deletion_policy(holds_data: bool) -> dict[str, object]:
    """The DeletionPolicy and its companions: AWS retains the resource without its stack, or deletes it.

    A changed DeletionPolicy alone is no change to CloudFormation, which then refuses the update as empty; the
    metadata make it one.
    """
    policy = "Retain" if holds_data else "Delete"
    return {
        "DeletionPolicy": policy,
        "UpdateReplacePolicy": policy,
        "Metadata": {"Gridwright": {"HoldsData": holds_data}},
    }


# Outputs of the storage stack that the grid stack reads.


def exported(spec: GridSpec, name: str, value: object, description: str) -> Output:
    """An output under the name that `Fn::ImportValue` asks for: STACK-NAME.

    While the grid stack imports it, AWS itself refuses to delete the storage stack.
    """
    return Output(
        name, Description=description, Value=value, Export=StackExport(f"{storage_stack(spec)}-{name}")
    )


# The table that says which instance is which machine, and which volumes it owns.
#
# Where it holds claims of volumes, it stays when the stack lets go of it, like the volumes. It has no
# deletion protection of DynamoDB's: a stack that fails when it is made first could not be rolled back then,
# and the table would be in the way of the next one.

CLAIMS_TABLE = "ClaimsTable"
"""Its logical ID."""
KEY = "slot"


def claims_table_resource(spec: GridSpec, *, holds_data: bool) -> dynamodb.Table:
    """The table; `holds_data` where volumes of a Lustre are in it."""
    aws = spec.section(Aws)
    key = aws.kms_key if aws else None
    return dynamodb.Table(
        CLAIMS_TABLE,
        TableName=claims_table(spec),
        AttributeDefinitions=[dynamodb.AttributeDefinition(AttributeName=KEY, AttributeType="S")],
        KeySchema=[dynamodb.KeySchema(AttributeName=KEY, KeyType="HASH")],
        BillingMode="PAY_PER_REQUEST",
        PointInTimeRecoverySpecification=dynamodb.PointInTimeRecoverySpecification(
            PointInTimeRecoveryEnabled=True
        ),
        SSESpecification=dynamodb.SSESpecification(
            SSEEnabled=True, **({"SSEType": "KMS", "KMSMasterKeyId": key} if key else {})
        ),
        Tags=Tags(tags(spec, role="claims")),
        **deletion_policy(holds_data),
    )


# A VPC of the site's: what the grid has there beside machines, reservations of addresses and names.

NAMES_AT_ONCE = 100
"""Names in one resource: a change of Route 53 takes 1,000 records (Route 53 Developer Guide, quotas)."""
TTL_S = 60
"""Addresses stay when machines are replaced; a grid that is made anew has others."""


def reservations(spec: GridSpec, layout: AwsLayout) -> Iterator[AWSObject]:
    """Addresses that AWS gives to nobody who does not name them, where the spec says so."""
    vpc = layout.aws.vpc
    if vpc is None or not vpc.reserve:
        return
    for name, each in vpc.subnets().items():
        yield ec2.SubnetCidrReservation(
            f"{name.capitalize()}Addresses",
            SubnetId=each.subnet,
            Cidr=each.addresses,
            ReservationType="explicit",
            Description=reserved_for(spec.name),
        )


def reserved_for(grid: str) -> str:
    """What reservations of a grid are known by.

    CloudFormation tags them in a call after that which makes them: no permission could be held to the grid.
    """
    return f"Grid {grid}"


def add_names(template: Template, layout: AwsLayout) -> None:
    """The name of each machine in the private zone of the site, where the spec names one."""
    vpc = layout.aws.vpc
    if vpc is None or vpc.dns is None:
        return
    for number, first in enumerate(range(0, len(layout.machines), NAMES_AT_ONCE), start=1):
        template.add_resource(
            route53.RecordSetGroup(
                f"Names{number}",
                HostedZoneId=vpc.dns.id,
                Comment=f"Machines of grid {layout.grid}",
                RecordSets=[
                    route53.RecordSet(
                        Name=f"{each.name}.{vpc.dns.name}.",
                        Type="A",
                        TTL=str(TTL_S),
                        ResourceRecords=[str(each.address)],
                    )
                    for each in layout.machines[first : first + NAMES_AT_ONCE]
                ],
            )
        )


VPC = "Vpc"
PRIVATE_ROUTES = "PrivateRoutes"
PUBLIC_ROUTES = "PublicRoutes"
SUBNETS = {"public": "PublicSubnet", "compute": "ComputeSubnet", "storage": "StorageSubnet"}
"""Logical IDs of the subnets; their exports are named alike."""
_EVERYWHERE = "0.0.0.0/0"
_ROLE = "network"

# From memory: FSx for Lustre User Guide (installing the Lustre client), Systems Manager User Guide (SSM Agent
# and AWS managed S3 buckets), Amazon Linux 2023 User Guide (repositories). Not verified against a page.
PACKAGE_BUCKETS = (
    "fsx-lustre-client-repo",
    "fsx-lustre-client-repo-public-keys",
    "aws-ssm-${AWS::Region}",
    "amazon-ssm-${AWS::Region}",
    "al2023-repos-${AWS::Region}-de612dc2",
)
"""Buckets of AWS that machines install software from; a gateway endpoint takes all traffic to S3."""

_OF_THE_ACCOUNT = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
)
_OF_THE_TABLE = (
    "dynamodb:DeleteItem",
    "dynamodb:DescribeTable",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:Scan",
    "dynamodb:UpdateItem",
)


def vpc_of(layout: AwsLayout) -> str | Ref:
    """The VPC, within the storage stack."""
    return Ref(VPC) if layout.aws.vpc is None else layout.aws.vpc.id


def subnet_of(layout: AwsLayout, name: str) -> str | Ref:
    """A subnet, within the storage stack: public, storage or compute."""
    vpc = layout.aws.vpc
    return Ref(SUBNETS[name]) if vpc is None else vpc.subnets()[name].subnet


def network_resources(spec: GridSpec, layout: AwsLayout) -> Iterator[AWSObject]:
    """VPC, subnets, routes and endpoints; of a VPC that is there, reservations of addresses alone."""
    if layout.aws.vpc is not None:
        yield from reservations(spec, layout)
        return
    yield ec2.VPC(
        VPC,
        CidrBlock=str(layout.networks[0]),
        EnableDnsHostnames=True,
        EnableDnsSupport=True,
        Tags=_tags(spec, spec.name),
    )
    for name, logical in SUBNETS.items():
        yield ec2.Subnet(
            logical,
            VpcId=Ref(VPC),
            AvailabilityZone=layout.aws.zone,
            CidrBlock=str(layout.subnets[name]),
            MapPublicIpOnLaunch=False,
            Tags=_tags(spec, f"{spec.name} {name}"),
        )
    yield ec2.RouteTable(PRIVATE_ROUTES, VpcId=Ref(VPC), Tags=_tags(spec, f"{spec.name} private"))
    outside = layout.aws.makes_way_out
    if outside:
        yield from _way_outside(spec)
    for name, logical in SUBNETS.items():
        table = PUBLIC_ROUTES if outside and name == "public" else PRIVATE_ROUTES
        yield ec2.SubnetRouteTableAssociation(
            f"{logical}Routes", SubnetId=Ref(logical), RouteTableId=Ref(table)
        )
    yield from _endpoints(spec, [PRIVATE_ROUTES, *([PUBLIC_ROUTES] if outside else [])])


def network_outputs(spec: GridSpec, layout: AwsLayout) -> Iterator[Output]:
    """What the grid stack reads of the network."""
    whose = "The grid's own network." if layout.aws.vpc is None else "The network that the grid is in."
    yield exported(spec, Export.VPC, vpc_of(layout), whose)
    for name, logical in SUBNETS.items():
        if name in layout.subnets:
            yield exported(spec, Export(logical), subnet_of(layout, name), f"Subnet {name}.")
    if layout.aws.vpc is None:
        yield exported(
            spec, Export.PRIVATE_ROUTES, Ref(PRIVATE_ROUTES), "Routes of the compute and storage subnets."
        )


def _tags(spec: GridSpec, name: str) -> Tags:
    return Tags(tags(spec, role=_ROLE) | {"Name": name})


def _way_outside(spec: GridSpec) -> Iterator[AWSObject]:
    yield ec2.InternetGateway("InternetGateway", Tags=_tags(spec, spec.name))
    yield ec2.VPCGatewayAttachment(
        "InternetGatewayAttachment", VpcId=Ref(VPC), InternetGatewayId=Ref("InternetGateway")
    )
    yield ec2.RouteTable(PUBLIC_ROUTES, VpcId=Ref(VPC), Tags=_tags(spec, f"{spec.name} public"))
    yield ec2.Route(
        "RouteToInternet",
        RouteTableId=Ref(PUBLIC_ROUTES),
        DestinationCidrBlock=_EVERYWHERE,
        GatewayId=Ref("InternetGateway"),
        DependsOn="InternetGatewayAttachment",
    )


def _endpoints(spec: GridSpec, tables: list[str]) -> Iterator[AWSObject]:
    policies = {"S3": _s3_policy(spec), "DynamoDB": _table_policy()}
    for service, policy in policies.items():
        yield ec2.VPCEndpoint(
            f"{service}Endpoint",
            VpcId=Ref(VPC),
            ServiceName=Sub(f"com.amazonaws.${{AWS::Region}}.{service.lower()}"),
            VpcEndpointType="Gateway",
            RouteTableIds=[Ref(table) for table in tables],
            PolicyDocument={"Version": "2012-10-17", "Statement": policy},
            Tags=_tags(spec, f"{spec.name} {service}"),
        )


def _s3_policy(spec: GridSpec) -> list[dict[str, object]]:
    """The account's own buckets by its own roles, and packages: data do not leave for a stranger's bucket."""
    return [
        {
            "Sid": "OwnBuckets",
            "Effect": "Allow",
            "Principal": "*",
            "Action": list(_OF_THE_ACCOUNT),
            "Resource": "*",
            "Condition": {
                "StringEquals": {
                    "aws:PrincipalAccount": Ref("AWS::AccountId"),
                    "aws:ResourceAccount": Ref("AWS::AccountId"),
                }
            },
        },
        {
            "Sid": "Packages",
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject"],
            "Resource": [Sub(f"arn:${{AWS::Partition}}:s3:::{bucket}/*") for bucket in PACKAGE_BUCKETS],
        },
        *_depots(spec),
    ]


def _depots(spec: GridSpec) -> Iterator[dict[str, object]]:
    """Depots of the spec, which may be in a bucket of another account."""
    places = [depot_place(each) for each in aws_section(spec).depots]
    if places:
        yield {
            "Sid": "Depots",
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": [
                Sub(f"arn:${{AWS::Partition}}:s3:::{each}")
                for bucket, below in places
                for each in (bucket, f"{bucket}/{below}*")
            ],
            "Condition": {"StringEquals": {"aws:PrincipalAccount": Ref("AWS::AccountId")}},
        }


def _table_policy() -> list[dict[str, object]]:
    return [
        {
            "Sid": "Claims",
            "Effect": "Allow",
            "Principal": "*",
            "Action": list(_OF_THE_TABLE),
            "Resource": GetAtt(CLAIMS_TABLE, "Arn"),
            "Condition": {"StringEquals": {"aws:PrincipalAccount": Ref("AWS::AccountId")}},
        }
    ]


# Security groups by role, with the ports that are needed and no more.
#
# Inwards, a rule names the group that may come and one range of ports; the only rule with a range of
# addresses from outside is ssh to the login node, from those of `aws.ssh_from`. The papers' groups, open to
# all, are not copied.
#
# Outwards, a machine may reach everything within the network, where the rules inwards of the other side
# decide, and the web beyond it: HTTPS for the interfaces of AWS, HTTP and NTP for package repositories and
# clocks, where there is no proxy; the proxy's own port where there is one; what `aws.egress` says, but for
# servers of file systems. S3 and DynamoDB are reached on
# HTTPS, too, and have public addresses though the way to them does not leave AWS. Name service and time of
# AWS pass no security group.
#
# Commands that work across nodes (srun, iotest) listen on a port that the kernel gives them: `EPHEMERAL`,
# which only machines of the grid can reach.


class Group(StrEnum):
    """Security groups, by their logical IDs; all but the last are exported under these names."""

    LOGIN = Export.LOGIN_GROUP
    HEAD = Export.HEAD_GROUP
    COMPUTE = Export.COMPUTE_GROUP
    STORAGE = Export.STORAGE_GROUP
    """Servers of file systems of one's own."""
    FSX = "FsxGroup"
    """FSx for Lustre."""

    @property
    def role(self) -> str:
        """What is in it."""
        return self.removesuffix("Group").lower()


CLIENTS = (Group.LOGIN, Group.HEAD, Group.COMPUTE)
"""Who mounts file systems, beside machines that do."""


SSH = Ports("Ssh", 22, 22)
ALL = Ports("All", -1, -1, "-1")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One rule inwards: who may reach whom on which ports, and why."""

    group: str
    """Logical ID of a security group, as of each of Group."""
    source: str | ipaddress.IPv4Network
    ports: Ports
    why: str

    @property
    def logical_id(self) -> str:
        """Made of what cannot change without another rule, so that an order of rules means nothing."""
        if isinstance(self.source, str):
            source = self.source.removesuffix("Group")
        else:
            source = re.sub(r"\.", "x", f"{self.source.network_address}") + f"p{self.source.prefixlen}"
        return f"{self.group.removesuffix('Group')}From{source}{self.ports.name}"


def security_groups(spec: GridSpec, layout: AwsLayout, filesystems: Iterable[str]) -> Iterator[AWSObject]:
    """Groups and rules, for these file systems of the spec."""
    present = [spec.filesystems[name] for name in filesystems]
    fsx = any(ManagedLustre in kind_of(each).requests(each) for each in present)
    roles = {str(group): group.role for group in Group if group is not Group.FSX or fsx}
    for group, role in {**roles, **{machines_group(name): name for name in spec.machines}}.items():
        yield ec2.SecurityGroup(
            group,
            GroupDescription=f"{role} of grid {spec.name}",
            VpcId=vpc_of(layout),
            SecurityGroupEgress=_outwards(spec, layout, group),
            Tags=Tags(tags(spec, role=role) | {"Name": f"{spec.name} {role}"}),
        )
    for rule in once(rules(spec, layout, fsx=fsx)):
        yield _ingress(rule)
    if layout.aws.efa:
        yield ec2.SecurityGroupEgress(
            "ComputeToComputeAll",
            GroupId=Ref(Group.COMPUTE),
            DestinationSecurityGroupId=Ref(Group.COMPUTE),
            IpProtocol=ALL.protocol,
            Description=_EFA,
        )


def group_outputs(spec: GridSpec) -> Iterator[Output]:
    """The groups that machines of the grid stack are in."""
    for group in Group:
        if group is not Group.FSX:
            yield exported(spec, group, Ref(group), f"Security group of role {group.role}.")
    for name in spec.machines:
        own = machines_group(name)
        yield exported(spec, own, Ref(own), f"Security group of machines {name}.")


def groups_of_site(layout: AwsLayout, machine: Machine) -> list[str]:
    """Security groups of the site that a machine is in beside the grid's own."""
    vpc = layout.aws.vpc
    if machine.role.serves_files:
        name = "storage"
    else:
        name = machine.group if machine.role is Role.MACHINE else str(machine.role)
    return list(vpc.security_groups.get(name, ())) if vpc is not None else []


def machines_group(name: str) -> str:
    """Logical ID of the security group of a group of machines beside the nodes; it is exported alike."""
    return logical_id(name) + "MachinesGroup"


def group_of(name: str, spec: GridSpec) -> str:
    """Logical ID of the security group by the name that `aws.ingress` has for it, a role or a group."""
    return machines_group(name) if name in spec.machines else f"{name.capitalize()}Group"


_EFA = "Elastic Fabric Adapter: all traffic among nodes"


def rules(spec: GridSpec, layout: AwsLayout, *, fsx: bool) -> Iterator[Allowed]:
    """All rules inwards; `fsx` where there is an FSx for Lustre."""
    for each in dict.fromkeys(layout.aws.ssh_from):
        yield Allowed(Group.LOGIN, ipaddress.IPv4Network(each), SSH, "ssh of users to the login node")
    yield from _administration(spec)
    yield from _scheduler(spec)
    yield from _as_ingress_says(spec, layout)
    if layout.aws.efa:
        yield Allowed(Group.COMPUTE, Group.COMPUTE, ALL, _EFA)
    if built_lustres(spec):
        yield from _lustre(spec, Group.STORAGE)
    if fsx:
        yield from _lustre(spec, Group.FSX)
    yield from _clusters(spec)


def once(found: Iterable[Allowed]) -> Iterator[Allowed]:
    """Rules without those that open what another one opens: AWS refuses the same rule twice.

    ssh is asked for by administrators, and by commands of a cluster.
    """
    seen = set()
    for each in found:
        what = (each.group, each.source, each.ports.protocol, each.ports.first, each.ports.last)
        if what not in seen:
            seen.add(what)
            yield each


def _administration(spec: GridSpec) -> Iterator[Allowed]:
    machines = [machines_group(name) for name in spec.machines]
    for group in (Group.HEAD, Group.COMPUTE, Group.STORAGE, *machines):
        yield Allowed(group, Group.LOGIN, SSH, "ssh from the login node")
    for group in (Group.COMPUTE, Group.STORAGE, *machines):
        yield Allowed(group, Group.HEAD, SSH, "ssh from the head node: setup, doctor and tests")
    why = "answers to commands that work across nodes"
    for group in (Group.LOGIN, Group.HEAD):
        yield Allowed(group, Group.COMPUTE, EPHEMERAL, why)


def _scheduler(spec: GridSpec) -> Iterator[Allowed]:
    groups = {GridPart.LOGIN: Group.LOGIN, GridPart.HEAD: Group.HEAD, GridPart.COMPUTE: Group.COMPUTE}
    for rule in kind_of_scheduler(spec.scheduler).network_rules(spec):
        yield Allowed(groups[rule.target], groups[rule.source], rule.ports, rule.why)


def _as_ingress_says(spec: GridSpec, layout: AwsLayout) -> Iterator[Allowed]:
    for each in layout.aws.ingress:
        first, last = each.bounds
        named = "/" not in each.source
        source = group_of(each.source, spec) if named else ipaddress.IPv4Network(each.source)
        ports = Ports(f"Site{each.protocol.capitalize()}{first}to{last}", first, last, each.protocol)
        yield Allowed(group_of(each.role, spec), source, ports, "as aws.ingress of the grid spec says")


def _lustre(spec: GridSpec, servers: Group) -> Iterator[Allowed]:
    mounting = [machines_group(name) for name, group in spec.machines.items() if group.mounts]
    for ports in LNET:
        yield Allowed(servers, servers, ports, "Lustre servers among themselves")
        for client in (*CLIENTS, *mounting):
            yield Allowed(servers, client, ports, "Lustre clients to servers")
            yield Allowed(client, servers, ports, "Lustre servers to clients: locks are called back")


def _clusters(spec: GridSpec) -> Iterator[Allowed]:
    """Members of a cluster reach each other: servers, where the grid has them, and clients."""
    members = [*CLIENTS, *(machines_group(name) for name, group in spec.machines.items() if group.mounts)]
    if paired_servers(spec):
        members.append(Group.STORAGE)
    ports = dict.fromkeys(each for one in shared_disk_file_systems(spec).values() for each in one.ports)
    for each in ports:
        for to in members:
            for source in members:
                yield Allowed(to, source, each, "members of a file system's cluster among themselves")


def _ingress(rule: Allowed) -> ec2.SecurityGroupIngress:
    source: dict[str, object]
    if isinstance(rule.source, str):
        source = {"SourceSecurityGroupId": Ref(rule.source)}
    else:
        source = {"CidrIp": str(rule.source)}
    ports = {} if rule.ports is ALL else {"FromPort": rule.ports.first, "ToPort": rule.ports.last}
    return ec2.SecurityGroupIngress(
        rule.logical_id,
        GroupId=Ref(rule.group),
        IpProtocol=rule.ports.protocol,
        Description=rule.why,
        **source,
        **ports,
    )


def _proxy(address: str) -> tuple[str, int]:
    """Host and port; the spec has checked that both are there."""
    host, _, port = address.rstrip("/").rpartition("/")[2].rpartition(":")
    return host, int(port)


def _outwards(spec: GridSpec, layout: AwsLayout, group: str) -> list[ec2.SecurityGroupRule]:
    beyond = [] if group == Group.FSX else [*_web(layout)]
    if group not in (Group.FSX, Group.STORAGE):
        beyond += [*_servers_elsewhere(spec), *_as_the_site_says(layout)]
    # AWS refuses the same rule twice, as of two NFS servers that are given by name.
    once = {
        (each.ports.protocol, each.ports.first, each.ports.last, each.to): each for each in reversed(beyond)
    }
    return [
        *(
            ec2.SecurityGroupRule(
                IpProtocol="-1", CidrIp=str(each), Description="within the network, as others let in"
            )
            for each in layout.networks
        ),
        *(
            ec2.SecurityGroupRule(
                IpProtocol=each.ports.protocol,
                FromPort=each.ports.first,
                ToPort=each.ports.last,
                CidrIp=each.to,
                Description=each.why,
            )
            for each in reversed(once.values())
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Outwards:
    ports: Ports
    why: str
    to: str = _EVERYWHERE


def _web(layout: AwsLayout) -> Iterator[_Outwards]:
    yield _Outwards(Ports("Https", 443, 443), "interfaces of AWS and package repositories")
    if layout.aws.proxy is None:
        yield _Outwards(Ports("Http", 80, 80), "package repositories")
        yield _Outwards(Ports("Ntp", 123, 123, "udp"), "time")
        return
    host, port = _proxy(layout.aws.proxy)
    # The same rule where it is the same port: a group of ports is known by its name, too.
    name = "Https" if port == 443 else "Proxy"
    yield _Outwards(Ports(name, port, port), "the proxy of the site", _only(host))


def _servers_elsewhere(spec: GridSpec) -> Iterator[_Outwards]:
    """File servers that the spec names and the grid does not have; the way there is the site's."""
    for each in spec.filesystems.values():
        for server in kind_of(each).servers_elsewhere(each):
            yield _Outwards(server.ports, server.why, _only(server.host) if server.host else _EVERYWHERE)


def _as_the_site_says(layout: AwsLayout) -> Iterator[_Outwards]:
    for each in layout.aws.egress:
        ports = Ports("Egress", *each.bounds, each.protocol)
        yield _Outwards(ports, "as aws.egress of the grid spec says", each.to)


def _only(host: str) -> str:
    """The one address, where it is one; a name may be any."""
    try:
        return f"{ipaddress.IPv4Address(host)}/32"
    except ValueError:
        return _EVERYWHERE
