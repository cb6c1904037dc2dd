"""What these credentials may do, as far as EC2 tells it without doing it (DryRun)."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.catalog import Catalog
from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.preflight.images import images
from gridwright.providers.aws.session import DENIED, Cloud, CloudError, action_of

ALLOWED = "DryRunOperation"
"""The code of EC2's answer where the call would be made."""


def rights_findings(cloud: Cloud, layout: AwsLayout, catalog: Catalog) -> Iterator[Finding]:
    """Each call that would be refused for want of a permission. Raises CloudError for want of an answer."""
    name = f"gridwright-{layout.grid}-check"
    calls: list[tuple[str, dict[str, object]]] = [
        *_of_network(layout, name),
        ("create_volume", {"AvailabilityZone": layout.aws.zone, "Size": 1, "VolumeType": "gp3"}),
        (
            "create_launch_template",
            {
                "LaunchTemplateName": name,
                "LaunchTemplateData": {"InstanceType": layout.machines[0].instance},
            },
        ),
        *(
            (
                "run_instances",
                {"ImageId": each.image, "InstanceType": each.instance, "MinCount": 1, "MaxCount": 1},
            )
            for each in images(layout, catalog)
        ),
    ]
    if layout.aws.has_public_login or layout.aws.makes_way_out:
        calls.append(("allocate_address", {"Domain": "vpc"}))
    denied = dict.fromkeys(operation for operation, given in calls if _is_denied(cloud, operation, given))
    for operation in denied:
        yield Finding(
            "error",
            "permission-missing",
            f"these credentials may not do ec2:{action_of(operation)}",
            f"have an administrator of the account allow ec2:{action_of(operation)}, or choose another "
            "AWS_PROFILE; gridwright render writes policies with all that it takes, into operator/",
        )


def _of_network(layout: AwsLayout, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The grid's own network, or what it has in one that is there."""
    vpc = layout.aws.vpc
    if vpc is None:
        yield "create_vpc", {"CidrBlock": str(layout.networks[0])}
        if layout.aws.makes_way_out:
            yield "create_internet_gateway", {}
        return
    yield "create_security_group", {"GroupName": name, "Description": name, "VpcId": vpc.id}
    for each in {each.subnet: each for each in vpc.subnets().values()}:
        yield "create_network_interface", {"SubnetId": each}
    if vpc.reserve:
        for place in vpc.subnets().values():
            yield (
                "create_subnet_cidr_reservation",
                {"SubnetId": place.subnet, "Cidr": place.addresses, "ReservationType": "explicit"},
            )


def _is_denied(cloud: Cloud, operation: str, given: dict[str, object]) -> bool:
    """Whether EC2 refuses a call for want of a permission; other refusals are found by other checks."""
    try:
        cloud.call("ec2", operation, DryRun=True, **given)
    except CloudError as error:
        if not error.code:
            raise
        return error.code in DENIED
    return False
