"""The way out of the private subnets: a NAT gateway, in the grid stack since it is billed by the hour."""

from __future__ import annotations

from troposphere import GetAtt, Ref, Tags, Template, ec2

from gridwright.providers.aws.layout import FIRST_ADDRESS, AwsLayout
from gridwright.providers.aws.names import Export, tags
from gridwright.providers.aws.user_data import exported
from gridwright.spec.model import GridSpec

WAY_OUT = "NatRoute"
"""Logical ID of the route that machines need before they start; none where it is the site's."""


def add_way_out(template: Template, spec: GridSpec, layout: AwsLayout) -> list[str]:
    """The gateway with its public address and the route to it; returns what machines have to wait for."""
    if not layout.aws.makes_way_out:
        return []
    address = template.add_resource(
        ec2.EIP("NatAddress", Domain="vpc", Tags=Tags(**tags(spec), Name=f"{spec.name}-nat"))
    )
    gateway = template.add_resource(
        ec2.NatGateway(
            "NatGateway",
            AllocationId=GetAtt(address, "AllocationId"),
            # Named, as one that AWS chooses might be the login node's.
            PrivateIpAddress=str(layout.subnets["public"][FIRST_ADDRESS + 1]),
            SubnetId=exported(spec, Export.PUBLIC_SUBNET),
            Tags=Tags(**tags(spec), Name=f"{spec.name}-nat"),
        )
    )
    template.add_resource(
        ec2.Route(
            WAY_OUT,
            RouteTableId=exported(spec, Export.PRIVATE_ROUTES),
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=Ref(gateway),
        )
    )
    return [WAY_OUT]
