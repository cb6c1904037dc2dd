"""Whether machines in a VPC of the site's reach what they need: routes and endpoints, as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.aws.console_layout import console_machine
from gridwright.providers.aws.layout import AwsLayout, Role
from gridwright.providers.aws.preflight.site_vpc import SubnetPlace, chosen, places
from gridwright.providers.aws.section_network import ExistingVpc
from gridwright.providers.aws.session import Cloud
from gridwright.schedulers import kind_of
from gridwright.spec.model import GridSpec

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
    has_key = kind_of(spec.scheduler).shared_key is not None and place.name != "storage"
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
    from ipaddress import IPv4Network

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
            from_ranges = [IPv4Network(each["CidrIp"]) for each in rule.get("IpRanges", ())]
            if any(each.overlaps(one) for each in ranges for one in from_ranges):
                return True
            if rule.get("UserIdGroupPairs") or rule.get("PrefixListIds"):
                return True
    return False
