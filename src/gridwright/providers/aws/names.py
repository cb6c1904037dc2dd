"""Names of what a grid has on AWS: stacks, their exports, tags."""

from __future__ import annotations

import re
from enum import StrEnum

from gridwright.providers.aws.section import Aws
from gridwright.spec.model import GridSpec

GRID_TAG = "gridwright:grid"
"""The tag that says which grid a resource belongs to; `down` finds what is left by it."""
ROLE_TAG = "gridwright:role"
GROUP_TAG = "gridwright:group"
"""The tag that says of which group of nodes of the spec an Auto Scaling group has the machines."""
SLOT_TAG = "gridwright:slot"
"""The tag that says which node a volume or a network interface is for."""
DISTRIBUTION_TAG = "gridwright:distribution"
"""The tag of an image that says which distribution it has, by its name in the table of distributions."""
TARGET_TAG = "gridwright:target"
"""The tag that says which target of a Lustre a volume holds."""


class Export(StrEnum):
    """What the storage stack tells the grid stack; the value of an export is named STACK-EXPORT."""

    VPC = "Vpc"
    PUBLIC_SUBNET = "PublicSubnet"
    COMPUTE_SUBNET = "ComputeSubnet"
    STORAGE_SUBNET = "StorageSubnet"
    PRIVATE_ROUTES = "PrivateRoutes"
    """Route table of the compute and storage subnets: the grid stack adds the way to the NAT gateway."""
    LOGIN_GROUP = "LoginGroup"
    HEAD_GROUP = "HeadGroup"
    COMPUTE_GROUP = "ComputeGroup"
    STORAGE_GROUP = "StorageGroup"
    """Security groups by role."""
    CLAIMS_TABLE_ARN = "ClaimsTableArn"
    SITE_BUCKET = "SiteBucket"
    """Name of the bucket with the bundle that machines set themselves up from."""


def storage_stack(spec: GridSpec) -> str:
    """The stack of what outlives machines: network, file systems, volumes, buckets, claims."""
    return f"gridwright-{spec.name}-storage"


def grid_stack(spec: GridSpec) -> str:
    """The stack of what runs: machines, NAT gateway, load balancer, roles."""
    return f"gridwright-{spec.name}"


def of_account(spec: GridSpec) -> str:
    """What is named by the grid where names are of the account, and not of a region."""
    return f"{grid_stack(spec)}-{spec.region}"


def claims_table(spec: GridSpec) -> str:
    """The DynamoDB table that says which instance is which machine, and which volumes it owns."""
    return f"gridwright-{spec.name}-claims"


def fsx_export(filesystem: str, part: str) -> str:
    """Export of an FSx for Lustre: `part` is Id, Dns or Mount (its mount name)."""
    return f"{logical_id(filesystem)}{part}"


def logical_id(*parts: str) -> str:
    """Names of a spec as one logical ID, letters and digits alone: ("shared", "oss1") is SharedOss1.

    Two names that differ in hyphens alone get one ID; `layout.aws_layout` refuses them.
    """
    words = [word for part in parts for word in re.split(r"[^A-Za-z0-9]+", part) if word]
    return "".join(word[0].upper() + word[1:] for word in words)


def server_group(filesystem: str, role: str) -> str:
    """Logical ID of the Auto Scaling group of the servers of a Lustre that have one role."""
    return logical_id(filesystem, role) + "Servers"


def lasting_tags(spec: GridSpec, **more: str) -> dict[str, str]:
    """The tags that a resource has for good: the grid, and `more` by name, such as role."""
    return {GRID_TAG: spec.name, **{f"gridwright:{name}": value for name, value in more.items()}}


def passing_tags(spec: GridSpec) -> dict[str, str | None]:
    """Owner and expiry, which change while a grid is up; None where the spec has none.

    They stand in no launch template, and on no resource that AWS makes anew to change its tags: `up` sets
    them by the tagging call of EC2.
    """
    aws = spec.section(Aws)
    return {
        "gridwright:owner": aws.owner if aws is not None else None,
        "gridwright:expires": aws.expires if aws is not None else None,
    }


def tags(spec: GridSpec, **more: str) -> dict[str, str]:
    """The tags of what changes them in place: those for good, and owner and expiry where there are any."""
    passing = {name: value for name, value in passing_tags(spec).items() if value is not None}
    return {**lasting_tags(spec, **more), **passing}


def group_name(grid: str, group: str, role: str, *, serves: bool) -> str:
    """The tag Name of an Auto Scaling group and its machines: GRID-GROUP, of servers GRID-FILESYSTEM-ROLE."""
    return "-".join([grid, group, *([role] if serves else [])])
