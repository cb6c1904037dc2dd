"""Whether the subnets of a grid have room for its machines."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from gridwright.errors import Problem
from gridwright.providers.aws.section import Aws
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


def too_small(
    spec: GridSpec,
    aws: Aws,
    subnets: Mapping[str, ipaddress.IPv4Network],
    needed: Mapping[str, int],
    *,
    has_lustre: bool,
) -> Iterator[Problem]:
    """Ranges with fewer addresses than machines take, and a subnet that a VPC of the site's has to have."""
    if aws.vpc is not None and "storage" not in subnets and has_lustre:
        yield problem_at(
            spec,
            ("aws", "vpc"),
            "the grid has a Lustre, and no subnet of the VPC is named for it",
            "add storage: {subnet: subnet-..., addresses: 10.8.8.0/26} to aws.vpc",
        )
    for name, subnet in subnets.items():
        if needed[name] <= subnet.num_addresses:
            continue
        place: tuple[str, ...] = ("aws", "network")
        remedy = "write a larger network, such as 10.20.0.0/16, or larger subnets"
        if aws.vpc is not None:
            place = ("aws", "vpc", "login" if name == "public" else name, "addresses")
            remedy = f"write a range of at least /{32 - (needed[name] - 1).bit_length()}"
        yield problem_at(
            spec,
            place,
            f"subnet {name}, {subnet}, has {subnet.num_addresses} addresses, and {needed[name]} are needed",
            remedy,
        )
