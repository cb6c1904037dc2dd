"""How a grid on AWS lies in its network: ranges, subnets, a VPC of the site's, and who reaches whom."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

NETWORK = "10.20.0.0/16"
"""Of a grid that names none."""
LAST_PORT = 65535
WIDEST_SSH = 8
"""Shortest prefix of a range that ssh is let in from: a site's own addresses are never more."""
SMALLEST_SUBNET = 28
"""Longest prefix of a subnet of a VPC (Amazon VPC User Guide)."""
MOST_GROUPS = 4
"""Security groups of the site on one interface, beside the grid's own: 5 by default (Amazon VPC quotas)."""
ROLE_NAME = re.compile(r"[a-z][a-z0-9-]*")


def private_network(value: str) -> str:
    """The range of a VPC that the grid makes."""
    example = "write a private range from /16 to /24, such as 10.20.0.0/16"
    network = _range(value, example)
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise FieldError(f"{value} is not a private range of addresses", example)
    if not 16 <= network.prefixlen <= 24:
        near = 16 if network.prefixlen < 16 else 24
        raise FieldError(
            f"{value} is not of a size that fits: AWS has networks up to /16, and three subnets need a /24",
            f"write {ipaddress.IPv4Network((network.network_address, near), strict=False)}",
        )
    return str(network)


def _subnet(value: str) -> str:
    return str(_range(value, "write a part of aws.network, such as 10.20.0.0/18"))


def _reached(value: str) -> str:
    return str(_range(value, "write one, such as 10.9.0.7/32 or 192.0.2.0/24"))


def _vpc_range(value: str) -> str:
    example = "write a range of the VPC, such as 10.8.0.0/16"
    network = _range(value, example)
    if not 16 <= network.prefixlen <= SMALLEST_SUBNET:
        raise FieldError(f"{value} is no range of a VPC: these are from /16 to /{SMALLEST_SUBNET}", example)
    return str(network)


def _addresses(value: str) -> str:
    example = "write the subnet's own range, or the part of it that is kept for the grid: 10.8.16.64/26"
    network = _range(value, example)
    if not 16 <= network.prefixlen <= SMALLEST_SUBNET:
        raise FieldError(
            f"{value} has {network.num_addresses} addresses, and from /16 to /{SMALLEST_SUBNET} fit", example
        )
    return str(network)


def _range(value: str, example: str, *, widest: int = 0) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(value)
    except ValueError:
        pass
    try:
        near = ipaddress.IPv4Network(value, strict=False)
    except ValueError:
        raise FieldError(f"{show(value)} is no range of IPv4 addresses", example) from None
    if near.prefixlen < widest:
        near = ipaddress.IPv4Network((value.partition("/")[0], widest), strict=False)
    raise FieldError(f"{value} has bits of an address behind its prefix", f"write {near}")


def _ssh_range(value: str) -> str:
    return _let_in(value, "write the addresses that your users come from, such as 203.0.113.0/24", "log in")


def _let_in(value: str, example: str, do: str) -> str:
    network = _range(value, example, widest=WIDEST_SSH)
    if network.prefixlen == 0:
        raise FieldError(f"{value} lets everybody on the Internet try to {do}", example)
    if network.prefixlen < WIDEST_SSH:
        near = ipaddress.IPv4Network((network.network_address, WIDEST_SSH))
        raise FieldError(f"{value} is a large part of the Internet", f"write {near}, or a narrower range")
    return str(network)


def _source(value: str) -> str:
    """A range of addresses, or the name of a role or a group of machines; names are looked up with others."""
    if ROLE_NAME.fullmatch(value):
        return value
    return _let_in(value, "write a range, such as 10.0.0.0/8, or a role, such as compute", "connect")


def _ports(value: object) -> str:
    """One port, or the first and the last of a range, as text."""
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", str(value))
    if found is None or isinstance(value, bool):
        raise FieldError(
            f"{show(value)} is neither a port nor a range of ports", "write 1433, or 27000-27009"
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if not 1 <= first <= last <= LAST_PORT:
        raise FieldError(
            f"{value} is no range of ports", f"write numbers from 1 to {LAST_PORT}, the lower one first"
        )
    return str(first) if first == last else f"{first}-{last}"


_A_RANGE = WithJsonSchema({"type": "string", "format": "ipv4-network"})
Range = Annotated[str, AfterValidator(_subnet), _A_RANGE]
Reached = Annotated[str, AfterValidator(_reached), _A_RANGE]
SshRange = Annotated[str, AfterValidator(_ssh_range), _A_RANGE]
VpcRange = Annotated[str, AfterValidator(_vpc_range), _A_RANGE]
Addresses = Annotated[str, AfterValidator(_addresses), _A_RANGE]
Source = Annotated[str, AfterValidator(_source), WithJsonSchema({"type": "string"})]
PortRange = Annotated[
    str,
    PlainValidator(_ports),
    WithJsonSchema({"type": ["integer", "string"], "examples": [1433, "27000-27009"]}),
]
_ID = r"^{}-[0-9a-f]{{8}}(?:[0-9a-f]{{9}})?$"
VpcId = Annotated[str, matching(_ID.format("vpc"), "the ID of a VPC", "one, such as vpc-0123456789abcdef0")]
SubnetId = Annotated[
    str, matching(_ID.format("subnet"), "the ID of a subnet", "one, such as subnet-0123456789abcdef0")
]
GroupId = Annotated[
    str, matching(_ID.format("sg"), "the ID of a security group", "one, such as sg-0123456789abcdef0")
]
EndpointId = Annotated[
    str, matching(_ID.format("vpce"), "the ID of an endpoint", "one, such as vpce-0123456789abcdef0")
]
HostedZone = Annotated[
    str, matching(r"^[A-Z0-9]{6,32}$", "the ID of a hosted zone", "one, such as Z0123456789ABCDEFGHIJ")
]
Domain = Annotated[
    str,
    matching(
        r"^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$",
        "the name of a domain",
        "the zone's name, such as grid.example.com",
    ),
]

_MADE_ANEW = Update(Change.NEVER, "everything lies in it; make another grid")
_EGRESS = Update(Change.LIVE, "the firewall of login node, head node, nodes and other machines is changed")
_INGRESS = Update(Change.LIVE, "a rule of a firewall is added or removed")


class Subnets(SpecModel):
    """Parts of the network, all in the one availability zone."""

    public: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None,
        description="For the login node and the NAT gateway. By default the first quarter of the network.",
    )
    storage: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None, description="For servers of file systems. By default the second quarter."
    )
    compute: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None,
        description="For nodes that run jobs, the head node and other machines. By default the upper half.",
    )

    def given(self) -> Mapping[str, str]:
        """Those that the spec names."""
        named = {"public": self.public, "storage": self.storage, "compute": self.compute}
        return {name: value for name, value in named.items() if value is not None}


class SiteSubnet(SpecModel):
    """A subnet that is there, and the addresses of it that the grid takes."""

    subnet: Annotated[SubnetId, _MADE_ANEW] = Field(
        description="Its ID. One subnet may serve for several, with addresses apart from each other."
    )
    addresses: Annotated[Addresses, _MADE_ANEW] = Field(
        description="The range that machines have their fixed addresses from: the subnet's own, or a part "
        "of it that nobody else takes, such as 10.8.16.64/26. Its first four and its last address are "
        "left free.",
    )


class DnsZone(SpecModel):
    """A hosted zone of Route 53 that the names of machines are written into."""

    id: Annotated[HostedZone, Update(Change.LIVE, "names are written anew")] = Field(
        description="Its ID, such as Z0123456789ABCDEFGHIJ."
    )
    name: Annotated[Domain, Update(Change.LIVE, "names are written anew")] = Field(
        description="Its name, such as grid.example.com: a machine is compute1.grid.example.com."
    )


class ExistingVpc(SpecModel):
    """A VPC of the site's, which the grid is put into; it is not changed."""

    id: Annotated[VpcId, _MADE_ANEW] = Field(description="Its ID, such as vpc-0123456789abcdef0.")
    networks: Annotated[
        list[VpcRange], Update(Change.ROLLING, "firewalls change; behind a proxy machines are replaced")
    ] = Field(
        min_length=1,
        max_length=8,
        description="Ranges of the VPC that the grid's subnets lie in, such as [10.8.0.0/16]: what machines "
        "reach without a rule of their own.",
    )
    login: Annotated[SiteSubnet, _MADE_ANEW] = Field(
        description="Where the login node is, such as {subnet: subnet-0123456789abcdef0, addresses: "
        "10.8.4.64/28}. It need not be public: see public_address.",
    )
    compute: Annotated[SiteSubnet, _MADE_ANEW] = Field(
        description="Where nodes that run jobs, the head node and other machines are. A node that is "
        "replaced by itself takes a second address of this subnet, from anywhere in it."
    )
    storage: Annotated[SiteSubnet | None, _MADE_ANEW] = Field(
        default=None,
        description="Where servers of Lustre and FSx for Lustre are. Needed where the grid has one.",
    )
    reserve: Annotated[bool, Update(Change.LIVE, "reservations are made or removed; no machine notices")] = (
        Field(
            default=False,
            description="Whether the grid reserves its addresses in the subnets (a subnet CIDR reservation "
            "of type explicit), so that AWS gives them to nobody else. Not in subnets of another account.",
        )
    )
    public_address: Annotated[
        bool, Update(Change.LIVE, "the login node gets another address, or none, on the Internet")
    ] = Field(
        default=False,
        description="Whether the login node has an Elastic IP address; its subnet needs a route to an "
        "internet gateway then. By default users come by VPN, Direct Connect or peering.",
    )
    endpoints: Annotated[
        list[EndpointId], Update(Change.LIVE, "only the look before up reads it; nothing is changed")
    ] = Field(
        default_factory=list,
        description="Endpoints of the VPC that machines need, by ID: up --check looks whether each is there, "
        "available, and reached from the subnets. By default whichever the VPC has.",
    )
    security_groups: Annotated[
        Mapping[str, list[GroupId]],
        Update(Change.ROLLING, "nodes and servers are replaced one at a time; others change in place"),
    ] = Field(
        default_factory=dict,
        description="Security groups of the site that machines are in beside the grid's own, by role: login, "
        f"head, compute, storage, or a group of machines; {MOST_GROUPS} each at most. Such as "
        "{login: [sg-0123456789abcdef0]}.",
    )
    dns: Annotated[DnsZone | None, Update(Change.LIVE, "names are written or removed")] = Field(
        default=None,
        description="The private hosted zone that names of machines are written into, such as "
        "{id: Z0123456789ABCDEFGHIJ, name: grid.example.com}. The VPC's DHCP options and DNS stay as they "
        "are. By default names are in /etc/hosts of the grid's machines alone.",
    )

    def subnets(self) -> Mapping[str, SiteSubnet]:
        """Its subnets, by what the grid has in them."""
        named = {"public": self.login, "storage": self.storage, "compute": self.compute}
        return {name: each for name, each in named.items() if each is not None}


class Egress(SpecModel):
    """What login node, head node, nodes and other machines reach beyond the network, besides the web."""

    to: Annotated[Reached, _EGRESS] = Field(
        description="Addresses, such as 10.9.0.7/32 for a licence server or a database."
    )
    ports: Annotated[PortRange, _EGRESS] = Field(
        description="A port, or the first and the last of several: 1433, or 27000-27009."
    )
    protocol: Annotated[Literal["tcp", "udp"], _EGRESS] = Field(
        default="tcp", description="Of these ports: tcp or udp."
    )

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last port."""
        return bounds_of(self.ports)


class Ingress(SpecModel):
    """Ports of machines of a role that others may reach, besides those that the grid itself needs."""

    role: Annotated[str, _INGRESS] = Field(
        description="Whose ports: login, head, compute, storage (servers of Lustre), or the name of a group "
        "of machines."
    )
    source: Annotated[Source, _INGRESS] = Field(
        description="Who may reach them: a range, such as 10.0.0.0/8, or a role, such as compute."
    )
    ports: Annotated[PortRange, _INGRESS] = Field(
        description="A port, or the first and the last of several: 8561, or 8080-8099."
    )
    protocol: Annotated[Literal["tcp", "udp"], _INGRESS] = Field(
        default="tcp", description="Of these ports: tcp or udp."
    )

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last port."""
        return bounds_of(self.ports)


def bounds_of(ports: str) -> tuple[int, int]:
    """The first and the last port of a range that was checked."""
    first, _, last = ports.partition("-")
    return int(first), int(last or first)
