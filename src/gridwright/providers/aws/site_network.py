"""A VPC of the site's: what the grid has there beside machines, reservations of addresses and names."""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, Template, ec2, route53

from gridwright.providers.aws.layout import AwsLayout
from gridwright.spec.model import GridSpec

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
