"""Addresses: whether ranges have enough, and those of machines beside the nodes.

These are at the upper end of the nodes' range, or where the spec says.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping

from gridwright.errors import Problem
from gridwright.providers.aws.section import Aws
from gridwright.spec.locate import problem_at
from gridwright.spec.machines import MOST_MACHINES
from gridwright.spec.model import GridSpec

Address = ipaddress.IPv4Address
BALANCER = 2
"""Offset of the load balancer of the console from the login node, after the NAT gateway."""


def room_of_login(aws: Aws) -> int:
    """Addresses that the range of the login node has from that node on, the last one of AWS among them."""
    return 2 + (BALANCER if aws.certificate is not None else 0)


def machine_addresses(spec: GridSpec, compute: ipaddress.IPv4Network) -> dict[str, Address]:
    """The address of each machine by its name.

    A group has MOST_MACHINES addresses below those of the groups before it, so that one more machine moves no
    other, and more nodes move none; the first one has the lowest of them.
    """
    found: dict[str, Address] = {}
    # The last address of a subnet is kept by AWS.
    end = int(compute.broadcast_address)
    for name, group in spec.machines.items():
        if group.address is None:
            end -= MOST_MACHINES
            first = end
        else:
            first = int(ipaddress.IPv4Address(group.address))
        for number, machine in enumerate(group.machine_names(name)):
            # What lies outside of all addresses is told with what lies outside of the range.
            found[machine] = Address(max(0, first + number) % 2**32)
    return found


def reserved_addresses(spec: GridSpec) -> int:
    """How many addresses at the upper end of the nodes' range are for these machines."""
    return MOST_MACHINES * sum(group.address is None for group in spec.machines.values())


def address_problems(
    spec: GridSpec, compute: ipaddress.IPv4Network, taken: Collection[Address]
) -> Iterator[Problem]:
    """Machines whose address is outside of the range, or another one's."""
    addresses = machine_addresses(spec, compute)
    used = set(taken)
    usable = range(4, compute.num_addresses - 1)
    for name, group in spec.machines.items():
        for machine in group.machine_names(name):
            address = addresses[machine]
            inside = int(address) - int(compute.network_address) in usable
            if inside and address not in used:
                used.add(address)
                continue
            where = ("address",) if group.address is not None else ()
            what = f"{machine} would have {address}, "
            what += "which another machine has" if inside else f"which is not in {compute}"
            free = _free(compute, used, group.count)
            yield problem_at(
                spec,
                ("machines", name, *where),
                what,
                f"write address: {free}" if free else "write a larger range for nodes and machines",
            )
            break


def _free(compute: ipaddress.IPv4Network, used: set[Address], count: int) -> Address | None:
    """The highest address that so many machines fit at."""
    last = compute.num_addresses - 1 - count
    return next(
        (
            compute[first]
            for first in range(last, 3, -1)
            if not any(compute[first + number] in used for number in range(count))
        ),
        None,
    )


def small_ranges(
    spec: GridSpec,
    aws: Aws,
    subnets: Mapping[str, ipaddress.IPv4Network],
    needed: Mapping[str, int],
    *,
    serves: bool,
) -> Iterator[Problem]:
    """Ranges with fewer addresses than machines take, and a subnet that a VPC of the site's has to have."""
    if aws.vpc is not None and "storage" not in subnets and serves:
        yield problem_at(
            spec,
            ("aws", "vpc"),
            "the grid has servers of a file system, and no subnet of the VPC is named for them",
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
