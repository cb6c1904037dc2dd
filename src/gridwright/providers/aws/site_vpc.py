"""Whether the VPC of the site is as the spec says, and has room for the grid: nothing is changed in it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.aws.layout import (
    AwsLayout,
    Machine,
    Role,
    balancer_address,
    console_machine,
    fsx_file_systems,
)
from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.network import reserved_for
from gridwright.providers.aws.section import ExistingVpc, SiteSubnet
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.stacks import tags_of
from gridwright.schedulers import scheduler_kind
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


# Whether machines in a VPC of the site's reach what they need: routes and endpoints, as they are.

ANYWHERE = "0.0.0.0/0"
HTTPS = 443
DIRECT = ("s3", "dynamodb")
"""Reached without a proxy, as user data say: bundles and claims."""
BY_CLAIMS = ("ec2", "autoscaling", "cloudformation")
"""What machines ask that an Auto Scaling group replaces."""
OF_ALL = ("monitoring",)


@dataclass(frozen=True)
class Ways:
    """What leads out of one subnet."""

    place: SubnetPlace
    table: str
    default: Mapping[str, Any] | None
    """Its route to anywhere."""
    endpoints: list[Mapping[str, Any]]
    """Of the VPC, those that can be used."""

    @property
    def to_internet_gateway(self) -> bool:
        """Whether anywhere is an internet gateway, which serves public addresses alone."""
        return str((self.default or {}).get("GatewayId", "")).startswith("igw-")

    @property
    def leads_out(self) -> bool:
        """Whether machines with private addresses get out: NAT, transit gateway, VPN, an appliance."""
        return (
            self.default is not None
            and self.default.get("State") == "active"
            and not self.to_internet_gateway
        )

    def reaches(self, service: str) -> bool:
        """Whether a service has an endpoint for this subnet."""
        for each in self.endpoints:
            if not str(each["ServiceName"]).endswith(f".{service}"):
                continue
            if each.get("VpcEndpointType") == "Gateway":
                if self.table in each.get("RouteTableIds", ()):
                    return True
            elif each.get("PrivateDnsEnabled"):
                return True
        return False


def way_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """What machines would not reach. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None:
        return
    endpoints = list(
        cloud.listed("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=chosen("vpc-id", vpc.id))
    )
    usable = [each for each in endpoints if str(each.get("State", "available")).lower() == "available"]
    found = [
        _ways(cloud, vpc, place, usable)
        for place in places(cloud, layout)
        if place.machines and place.found["VpcId"] == vpc.id
    ]
    for ways in found:
        yield from _out(ways, vpc)
        yield from _to_services(ways, spec, layout)
    yield from _named_endpoints(cloud, layout, endpoints, found)


def _ways(cloud: Cloud, vpc: ExistingVpc, place: SubnetPlace, endpoints: list[Mapping[str, Any]]) -> Ways:
    """The subnet's own route table, else the main one of the VPC."""
    own = chosen("association.subnet-id", place.wanted.subnet)
    main = [*chosen("association.main", "true"), *chosen("vpc-id", vpc.id)]
    tables: list[Mapping[str, Any]] = []
    for filters in (own, main):
        tables = tables or list(cloud.listed("ec2", "describe_route_tables", "RouteTables", Filters=filters))
    table: Mapping[str, Any] = tables[0] if tables else {"RouteTableId": "", "Routes": []}
    default = next((each for each in table["Routes"] if each.get("DestinationCidrBlock") == ANYWHERE), None)
    return Ways(place, str(table["RouteTableId"]), default, endpoints)


def _out(ways: Ways, vpc: ExistingVpc) -> Iterator[Finding]:
    table = f"route table {ways.table} of subnet {ways.place.wanted.subnet}"
    if ways.default is not None and ways.default.get("State") != "active":
        yield Finding(
            "error",
            "route-leads-nowhere",
            f"{table} sends {ANYWHERE} to something that is not there any more",
            "have who answers for the VPC mend the route",
        )
    if ways.place.name == "public" and vpc.public_address and not ways.to_internet_gateway:
        yield Finding(
            "error",
            "no-internet-gateway",
            f"the login node is to have a public address, and {table} has no route to an internet gateway",
            "write a subnet that has one in aws.vpc.login, or public_address: false",
        )


def _to_services(ways: Ways, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    public = layout.aws.has_public_login and all(each.role is Role.LOGIN for each in ways.place.machines)
    if ways.leads_out or (public and ways.to_internet_gateway):
        return
    proxy = layout.aws.proxy is not None
    required = [*DIRECT, *([] if proxy else _services(spec, layout, ways.place))]
    if lacking := [each for each in required if not ways.reaches(each)]:
        names = ", ".join(lacking)
        why = (
            "its route to an internet gateway is of no use to private addresses"
            if ways.to_internet_gateway
            else "it has no route that leads out"
        )
        yield Finding(
            "error",
            "service-not-reached",
            f"machines in subnet {ways.place.wanted.subnet} do not reach {names}: {why}, and the VPC has no "
            f"endpoint for {'it' if len(lacking) == 1 else 'them'} there",
            "have who answers for the VPC add endpoints (gateways of s3 and dynamodb in route table "
            f"{ways.table}, interfaces with private DNS for others), or a route; or write another subnet",
        )
    if not proxy:
        yield Finding(
            "warning",
            "packages-not-reached",
            f"machines in subnet {ways.place.wanted.subnet} reach no package repositories on the Internet",
            "write proxy in aws, or an image that has all packages, or repositories within reach",
        )


def _services(spec: GridSpec, layout: AwsLayout, place: SubnetPlace) -> Iterator[str]:
    yield from OF_ALL
    if any(each.replaced for each in place.machines):
        yield from BY_CLAIMS
    has_key = scheduler_kind(spec.scheduler).shared_key is not None and place.name != "storage"
    console = console_machine(layout)
    if has_key or console in place.machines:
        yield "secretsmanager"
    if console in place.machines:
        yield "ssm"
    if console is not None and place.name != "storage" and not any(each.replaced for each in place.machines):
        yield "ec2"


def _named_endpoints(
    cloud: Cloud, layout: AwsLayout, there: list[Mapping[str, Any]], found: list[Ways]
) -> Iterator[Finding]:
    """Endpoints that the spec names are there, available, and let machines in."""
    vpc = layout.aws.vpc
    known = {str(each["VpcEndpointId"]): each for each in there}
    for number in dict.fromkeys(vpc.endpoints if vpc is not None else ()):
        each = known.get(number)
        if each is None:
            yield Finding(
                "error",
                "endpoint-unknown",
                f"the VPC has no endpoint {number}",
                "write one that it has in aws.vpc.endpoints: aws ec2 describe-vpc-endpoints",
            )
            continue
        state = str(each.get("State", "available"))
        if state.lower() != "available":
            yield Finding(
                "error",
                "endpoint-not-available",
                f"endpoint {number} ({each['ServiceName']}) is {state}",
                "wait until it is available, or have who answers for the VPC look at it",
            )
        if each.get("VpcEndpointType") == "Gateway":
            without = [one for one in found if one.table not in each.get("RouteTableIds", ())]
            if without:
                tables = ", ".join(dict.fromkeys(one.table for one in without))
                yield Finding(
                    "error",
                    "endpoint-not-reached",
                    f"endpoint {number} ({each['ServiceName']}) is in no route of {tables}",
                    f"aws ec2 modify-vpc-endpoint --region {cloud.region} --vpc-endpoint-id {number} "
                    f"--add-route-table-ids {tables.replace(', ', ' ')}",
                )
        elif not _lets_in(cloud, layout, [one["GroupId"] for one in each.get("Groups", ())]):
            yield Finding(
                "error",
                "endpoint-not-reached",
                f"no security group of endpoint {number} ({each['ServiceName']}) lets HTTPS in from "
                f"{', '.join(map(str, layout.networks))}",
                "have who answers for the VPC let it in",
            )


def _lets_in(cloud: Cloud, layout: AwsLayout, groups: list[str]) -> bool:
    """Whether a rule lets HTTPS in from an address of the grid; one that names a group may."""
    if not groups:
        return True
    ranges = list(layout.subnets.values())
    for group in cloud.listed(
        "ec2", "describe_security_groups", "SecurityGroups", Filters=chosen("group-id", *groups)
    ):
        for rule in group.get("IpPermissions", ()):
            every = rule.get("IpProtocol") == "-1"
            if not every and not int(rule.get("FromPort", -1)) <= HTTPS <= int(rule.get("ToPort", -1)):
                continue
            from_ranges = [Network(each["CidrIp"]) for each in rule.get("IpRanges", ())]
            if any(each.overlaps(one) for each in ranges for one in from_ranges):
                return True
            if rule.get("UserIdGroupPairs") or rule.get("PrefixListIds"):
                return True
    return False
