"""Whether the VPC of the site is as the spec says, and has room for the grid: nothing is changed in it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.aws.console_layout import balancer_address
from gridwright.providers.aws.layout import AwsLayout, Machine, fsx_file_systems
from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.section_network import ExistingVpc, SiteSubnet
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.site_network import reserved_for
from gridwright.providers.aws.tagged import tags_of
from gridwright.spec.model import GridSpec

GIB_OF_SERVER = 1200
"""FSx for Lustre has an interface for each of its servers; capacity comes in steps of this size at least."""
Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True)
class SubnetPlace:
    """A subnet by its name in the spec, as AWS describes it, with the machines that are to be in it."""

    name: str
    wanted: SiteSubnet
    found: Mapping[str, Any]
    machines: tuple[Machine, ...]

    @property
    def field(self) -> str:
        """Where the spec names it."""
        return f"aws.vpc.{'login' if self.name == 'public' else self.name}"

    @property
    def cidr(self) -> Network:
        """Its range."""
        return Network(self.found["CidrBlock"])

    @property
    def addresses(self) -> Network:
        """What of it is the grid's."""
        return Network(self.wanted.addresses)


def chosen(name: str, *values: str) -> list[dict[str, Any]]:
    """Filters of EC2: what is not there is left out of its answer, where an ID would be an error."""
    return [{"Name": name, "Values": list(values)}]


def vpc_findings(cloud: Cloud, layout: AwsLayout, account: str) -> Iterator[Finding]:
    """The VPC itself. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None:
        return
    found = described(cloud, vpc)
    if found is None:
        yield Finding(
            "error",
            "vpc-unknown",
            f"the account sees no VPC {vpc.id} in {cloud.region}",
            "write the ID of one in aws.vpc.id (aws ec2 describe-vpcs); another account shares one by RAM",
        )
        return
    owner = str(found.get("OwnerId", account))
    if owner != account:
        yield Finding(
            "info",
            "vpc-shared",
            f"VPC {vpc.id} is of account {owner}: interfaces of others in its subnets are not seen from "
            "here, and reservations of addresses, routes and endpoints are the owner's",
            "have the owner look at what is said of addresses and routes here",
        )
    own = [Network(each["CidrBlock"]) for each in found.get("CidrBlockAssociationSet", ())]
    own = own or [Network(found["CidrBlock"])]
    for each in layout.networks:
        if not any(each.subnet_of(one) for one in own):
            yield Finding(
                "error",
                "vpc-of-another-range",
                f"VPC {vpc.id} has {', '.join(map(str, own))}, and not {each}",
                "write ranges that it has in aws.vpc.networks",
            )
    yield from _dns(cloud, vpc)


def described(cloud: Cloud, vpc: ExistingVpc) -> Mapping[str, Any] | None:
    """The VPC; None where the account sees none of this ID. Raises CloudError."""
    found: list[Mapping[str, Any]] = cloud.call("ec2", "describe_vpcs", Filters=chosen("vpc-id", vpc.id))[
        "Vpcs"
    ]
    return found[0] if found else None


def _dns(cloud: Cloud, vpc: ExistingVpc) -> Iterator[Finding]:
    """Name service within the VPC: file systems and endpoints are known by names."""
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        answer = cloud.call("ec2", "describe_vpc_attribute", VpcId=vpc.id, Attribute=attribute)
        if answer[attribute[0].upper() + attribute[1:]].get("Value", False):
            continue
        # Without hostnames a private zone and private names of endpoints are not answered (VPC User Guide).
        hurts = attribute == "enableDnsSupport" or vpc.dns is not None
        yield Finding(
            "error" if hurts else "warning",
            "vpc-without-dns",
            f"VPC {vpc.id} has {attribute} off: "
            + (
                "names are not answered in it" if hurts else "private names of its endpoints are not answered"
            ),
            f"aws ec2 modify-vpc-attribute --region {cloud.region} --vpc-id {vpc.id} "
            f"--{'enable-dns-support' if attribute == 'enableDnsSupport' else 'enable-dns-hostnames'}",
        )


def places(cloud: Cloud, layout: AwsLayout) -> list[SubnetPlace]:
    """Subnets of the spec that are there. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None:
        return []
    required = vpc.subnets()
    ids = sorted({each.subnet for each in required.values()})
    there = {
        each["SubnetId"]: each
        for each in cloud.listed("ec2", "describe_subnets", "Subnets", Filters=chosen("subnet-id", *ids))
    }
    return [
        SubnetPlace(name, each, there[each.subnet], tuple(m for m in layout.machines if m.subnet == name))
        for name, each in required.items()
        if each.subnet in there
    ]


def subnet_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """Subnets: that they are of the VPC and the zone, and have the addresses. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None:
        return
    found = places(cloud, layout)
    for name, each in vpc.subnets().items():
        if name not in {place.name for place in found}:
            field = f"aws.vpc.{'login' if name == 'public' else name}.subnet"
            yield Finding(
                "error",
                "subnet-unknown",
                f"the account sees no subnet {each.subnet} in {cloud.region}",
                f"write the ID of one of VPC {vpc.id} in {field}",
            )
    for place in found:
        yield from _lies(place, layout)
    fit = [each for each in found if each.addresses.subnet_of(each.cidr)]
    for number in dict.fromkeys(each.wanted.subnet for each in fit):
        together = [each for each in fit if each.wanted.subnet == number]
        yield from _room(cloud, spec, layout, together)
        yield from _reserved(cloud, layout, together)


def _lies(place: SubnetPlace, layout: AwsLayout) -> Iterator[Finding]:
    number, zone, vpc = place.wanted.subnet, place.found["AvailabilityZone"], place.found["VpcId"]
    expected = layout.aws.vpc.id if layout.aws.vpc else ""
    if vpc != expected:
        yield Finding(
            "error",
            "subnet-of-another-vpc",
            f"subnet {number} is in {vpc}, and not in {expected}",
            f"write a subnet of {expected} in {place.field}.subnet",
        )
    if zone != layout.aws.zone:
        yield Finding(
            "error",
            "subnet-in-another-zone",
            f"subnet {number} is in zone {zone}, and the grid in {layout.aws.zone}",
            f"write a subnet of {layout.aws.zone} in {place.field}.subnet, or aws.zone: {zone}",
        )
    if not place.addresses.subnet_of(place.cidr):
        yield Finding(
            "error",
            "addresses-outside-subnet",
            f"subnet {number} has {place.cidr}, and {place.addresses} is not in it",
            f"write {place.cidr}, or a part of it, in {place.field}.addresses",
        )


def _room(cloud: Cloud, spec: GridSpec, layout: AwsLayout, together: list[SubnetPlace]) -> Iterator[Finding]:
    """Addresses that machines are to have are nobody else's, and there are enough beside them."""
    number = together[0].wanted.subnet
    interfaces = list(
        cloud.listed(
            "ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=chosen("subnet-id", number)
        )
    )
    holders = dict(_holders(interfaces))
    machines = [machine for each in together for machine in each.machines]
    fixed = {str(each.address): each.name for each in machines}
    balancer = balancer_address(layout)
    if balancer is not None and any(each.name == "public" for each in together):
        fixed[str(balancer)] = "the load balancer of the console"
    taken = {address: holders[address] for address in fixed if address in holders}
    others = {
        address: each
        for address, each in taken.items()
        if tags_of(each).get(GRID_TAG) != spec.name
        # Interfaces of load balancers have no tags; at this address it is taken to be the grid's own.
        and not (address == str(balancer) and each.get("InterfaceType") == "network_load_balancer")
    }
    if others:
        first, holder = next(iter(others.items()))
        what = str(holder.get("Description") or holder.get("InterfaceType") or "without a description")
        more = f", and {len(others) - 1} more of the grid's addresses are taken" if len(others) > 1 else ""
        yield Finding(
            "error",
            "address-taken",
            f"{first}, which {fixed[first]} is to have, is that of {holder['NetworkInterfaceId']} "
            f"({what}){more}",
            f"write another range in {_fields(together)}.addresses, or free the address",
        )
    needed = len(fixed) - (len(taken) - len(others)) + _by_chance(spec, together, machines, interfaces, fixed)
    free = int(together[0].found["AvailableIpAddressCount"])
    if free < needed:
        yield Finding(
            "error",
            "subnet-too-full",
            f"subnet {number} has {free} free addresses, and the grid needs {needed} there: "
            f"{len(fixed)} that it names, and those that AWS chooses for replaced machines and FSx",
            f"write a larger subnet in {_fields(together)}, or a smaller grid",
        )


def _holders(interfaces: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for each in interfaces:
        for address in each.get("PrivateIpAddresses", ()):
            yield address["PrivateIpAddress"], each
        for prefix in each.get("Ipv4Prefixes", ()):
            for one in Network(prefix["Ipv4Prefix"]):
                yield str(one), each


def _by_chance(
    spec: GridSpec,
    together: list[SubnetPlace],
    machines: list[Machine],
    interfaces: list[Mapping[str, Any]],
    required: Collection[str],
) -> int:
    """Addresses that AWS chooses: of machines that claim their own, and of FSx."""
    needed = sum(each.replaced for each in machines)
    if any(each.name == "storage" for each in together):
        for managed in fsx_file_systems(spec).values():
            needed += 1 + -(-int(managed.capacity or 0) // (GIB_OF_SERVER * 2**30))
    own = [each for each in interfaces if tags_of(each).get(GRID_TAG) == spec.name]
    there = sum(each.get("PrivateIpAddress") not in required for each in own)
    return max(0, needed - there)


def _fields(together: list[SubnetPlace]) -> str:
    return " and ".join(each.field for each in together)


def _reserved(cloud: Cloud, layout: AwsLayout, together: list[SubnetPlace]) -> Iterator[Finding]:
    """What keeps others from the grid's addresses until machines have them."""
    vpc, number = layout.aws.vpc, together[0].wanted.subnet
    answer = cloud.call("ec2", "get_subnet_cidr_reservations", SubnetId=number)
    there = list(answer.get("SubnetIpv4CidrReservations", ()))
    for each in together:
        over = [one for one in there if Network(one["Cidr"]).overlaps(each.addresses)]
        kept = any(
            each.addresses.subnet_of(Network(one["Cidr"])) and one["ReservationType"] == "explicit"
            for one in over
        )
        foreign = [one for one in over if one.get("Description") != reserved_for(layout.grid)]
        if vpc is not None and vpc.reserve:
            yield from _reserving(each, foreign)
        elif over and not kept:
            yield Finding(
                "error",
                "addresses-reserved",
                f"{over[0]['Cidr']} of subnet {number} is reserved ({over[0]['ReservationType']}), and the "
                f"grid's addresses {each.addresses} are not within one reservation of type explicit",
                f"write another range in {each.field}.addresses, or change the reservation",
            )
        elif not kept and each.addresses != each.cidr:
            yield Finding(
                "warning",
                "addresses-not-reserved",
                f"nothing keeps {each.addresses} of subnet {number} free: AWS gives its addresses to whoever "
                "starts something there",
                f"write reserve: true in aws.vpc; or: aws ec2 create-subnet-cidr-reservation --region "
                f"{cloud.region} --subnet-id {number} --cidr {each.addresses} --reservation-type explicit",
            )


def _reserving(place: SubnetPlace, foreign: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Why AWS would refuse a reservation of the grid's, or do so with what else it places there."""
    if foreign:
        yield Finding(
            "error",
            "addresses-reserved",
            f"{foreign[0]['Cidr']} of subnet {place.wanted.subnet} is reserved already "
            f"({foreign[0]['ReservationType']}), and {place.addresses} overlaps it",
            f"write reserve: false where that reservation is for the grid; else another range in "
            f"{place.field}.addresses",
        )
    if place.addresses == place.cidr:
        yield Finding(
            "error",
            "subnet-reserved-whole",
            f"{place.addresses} is all of subnet {place.wanted.subnet}: with reserve AWS has no address left "
            "for FSx, and for machines before they claim theirs",
            f"write a part of it in {place.field}.addresses, or reserve: false",
        )
