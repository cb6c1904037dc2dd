"""The grid's network: a VPC of one zone, its subnets, routes and ways to S3 and DynamoDB.

Subnet `public` holds the login node and the NAT gateway of the grid stack; `compute` the nodes and the head
node; `storage` the servers of file systems. Nothing in the last two can be reached from outside.

With `aws.proxy` the site has its own way out (paper 004): there is no internet gateway, the login node has
no public address, and the public subnet has the routes of the private ones. Users then come in through
Session Manager, whose agent goes through the proxy, or from the site's network: its peering, transit gateway
or VPN is attached to this VPC by the site, which also adds the routes to the proxy and to its users to the
exported route table. Gridwright changes no network that it did not make.

There are no network ACLs of its own: they know no state and no roles, and the security groups say it all.
There are no flow logs: they are billed by the gigabyte, and a grid moves many. A site that must have them
turns them on for the exported VPC.

With `aws.vpc` the VPC is the site's, and nothing of this module is made: not even a tag. What the grid adds
to such a network of its own is in `site_network`.

The default security group of a VPC cannot be emptied by CloudFormation. Nothing is in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, GetAtt, Output, Ref, Sub, Tags, ec2

from gridwright.providers.aws.claims_table import CLAIMS_TABLE
from gridwright.providers.aws.exports import exported
from gridwright.providers.aws.layout import AwsLayout, aws_section
from gridwright.providers.aws.names import Export, tags
from gridwright.providers.aws.section import depot_place
from gridwright.providers.aws.site_network import reservations
from gridwright.spec.model import GridSpec

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
