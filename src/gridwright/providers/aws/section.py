"""The section `aws:` of a grid spec: network, machines, storage and costs."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from gridwright.errors import nearest
from gridwright.providers.cloud import let_in, parsed_range, private_network
from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.yamltext.fields import Duration, FieldError, matching
from gridwright.yamltext.source import show

# How a grid on AWS lies in its network: ranges, subnets, a VPC of the site's, and who reaches whom.

NETWORK = "10.20.0.0/16"
"""Of a grid that names none."""
LAST_PORT = 65535
SMALLEST_SUBNET = 28
"""Longest prefix of a subnet of a VPC (Amazon VPC User Guide)."""
MOST_GROUPS = 4
"""Security groups of the site on one interface, beside the grid's own: 5 by default (Amazon VPC quotas)."""
ROLE_NAME = re.compile(r"[a-z][a-z0-9-]*")


def _network(value: str) -> str:
    """The range of a VPC that the grid makes."""
    unfit = "fits: AWS has networks up to /16, and three subnets need a /24"
    return private_network(
        value, "write a private range from /16 to /24, such as 10.20.0.0/16", 16, 24, unfit
    )


def _subnet(value: str) -> str:
    return str(parsed_range(value, "write a part of aws.network, such as 10.20.0.0/18"))


def _reached(value: str) -> str:
    return str(parsed_range(value, "write one, such as 10.9.0.7/32 or 192.0.2.0/24"))


def _vpc_range(value: str) -> str:
    example = "write a range of the VPC, such as 10.8.0.0/16"
    network = parsed_range(value, example)
    if not 16 <= network.prefixlen <= SMALLEST_SUBNET:
        raise FieldError(f"{value} is no range of a VPC: these are from /16 to /{SMALLEST_SUBNET}", example)
    return str(network)


def _addresses(value: str) -> str:
    example = "write the subnet's own range, or the part of it that is kept for the grid: 10.8.16.64/26"
    network = parsed_range(value, example)
    if not 16 <= network.prefixlen <= SMALLEST_SUBNET:
        raise FieldError(
            f"{value} has {network.num_addresses} addresses, and from /16 to /{SMALLEST_SUBNET} fit", example
        )
    return str(network)


def _source(value: str) -> str:
    """A range of addresses, or the name of a role or a group of machines; names are looked up with others."""
    if ROLE_NAME.fullmatch(value):
        return value
    example = "write a range, such as 10.0.0.0/8, or a role, such as compute"
    return let_in(value, example=example, do="connect")


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
SshRange = Annotated[str, AfterValidator(let_in), _A_RANGE]
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
_EGRESS_RULE = Update(
    Change.LIVE, "the firewall of login node, head node, nodes and other machines is changed"
)
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
        "left free."
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
        "10.8.4.64/28}. It need not be public: see public_address."
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

    to: Annotated[Reached, _EGRESS_RULE] = Field(
        description="Addresses, such as 10.9.0.7/32 for a licence server or a database."
    )
    ports: Annotated[PortRange, _EGRESS_RULE] = Field(
        description="A port, or the first and the last of several: 1433, or 27000-27009."
    )
    protocol: Annotated[Literal["tcp", "udp"], _EGRESS_RULE] = Field(
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


SUBNETS = ("public", "storage", "compute")
_ARN = r"^arn:aws[a-z-]*:{}:[a-z0-9-]+:[0-9]{{12}}:{}/[A-Za-z0-9/_-]+$"
_PORT = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


def default_subnets(network: ipaddress.IPv4Network) -> dict[str, ipaddress.IPv4Network]:
    """The parts of a network that subnets are by default: two quarters, and the upper half."""
    low, high = network.subnets(prefixlen_diff=1)
    public, storage = low.subnets(prefixlen_diff=1)
    return dict(zip(SUBNETS, (public, storage, high), strict=True))


def depot_place(depot: str) -> tuple[str, str]:
    """The bucket of a depot, and what keys in it begin with: nothing, or a directory with its slash."""
    bucket, _, below = depot.removeprefix("s3://").partition("/")
    return bucket, f"{below.rstrip('/')}/" if below else ""


def _distribution(value: str) -> str:
    from gridwright.setup.distributions import distributions

    known = {each.name: each for each in distributions()}
    fit = ", ".join(name for name, each in known.items() if each.in_cloud)
    if value not in known:
        near = nearest(value, known)
        raise FieldError(
            f"{show(value)} is no distribution that is known",
            f"did you mean {near}?" if near else f"write one of {fit}",
        )
    if not known[value].in_cloud:
        raise FieldError(
            f"{known[value].title} is not supported: {known[value].reason}", f"choose one of {fit}"
        )
    return value


def _day(value: object) -> str:
    """A day as YYYY-MM-DD; YAML has read an unquoted one already."""
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise FieldError(f"{show(value)} is not a day", "write one, such as 2027-01-31") from None


Zone = Annotated[
    str,
    matching(
        r"^[a-z]{2}(?:-[a-z]+)+-[0-9]+[a-z]$",
        "an availability zone",
        "one of the region, such as us-east-1a",
        "us-east-1a",
    ),
]
Image = Annotated[
    str,
    matching(
        r"^(?:ami-[0-9a-f]{8,17}|/[A-Za-z0-9._/-]{1,1010})$",
        "an image",
        "its ID, ami-..., or the name of an SSM parameter that has it",
    ),
]
DistributionName = Annotated[
    str,
    AfterValidator(_distribution),
    WithJsonSchema({"type": "string", "pattern": "^[a-z]+-[0-9.]+$", "examples": ["rocky-9"]}),
]
KmsKey = Annotated[str, matching(_ARN.format("kms", "key"), "the ARN of a KMS key", "arn:aws:kms:...")]
Boundary = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:iam::(?:[0-9]{12}|aws):policy/[A-Za-z0-9/+=,.@_-]{1,512}$",
        "the ARN of a managed policy",
        "arn:aws:iam::111122223333:policy/NAME",
    ),
]
Certificate = Annotated[
    str, matching(_ARN.format("acm", "certificate"), "the ARN of a certificate", "arn:aws:acm:...")
]
Instance = Annotated[str, matching(r"^[a-z0-9-]+\.[a-z0-9-]+$", "an instance type", "one, such as m6i.large")]
Proxy = Annotated[
    str,
    matching(
        rf"^https?://[A-Za-z0-9.-]{{1,253}}:{_PORT}/?$",
        "the address of a proxy",
        "http://proxy.example.com:3128",
    ),
]
Topic = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$",
        "the ARN of an SNS topic",
        "arn:aws:sns:us-east-1:111122223333:grid-alarms",
    ),
]
Depot = Annotated[
    str,
    matching(
        r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9._-]+)*/?$",
        "a directory in a bucket",
        "one, such as s3://our-depots/sas",
        "s3://our-depots/sas",
    ),
]
KeyPair = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9 ._()-]{0,254}$",
        "the name of a key pair",
        "the name of one of EC2's key pairs",
    ),
]
Owner = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9 +=._:/@-]{1,255}$", "an owner", "a name or an address, such as analytics@example.com"
    ),
]

_EGRESS = Update(Change.LIVE, "the firewalls of login node, head node, nodes and other machines are changed")
_DRAINED = "nodes are replaced, each when its jobs have ended"
_LAUNCHED = Update(Change.ROLLING, f"{_DRAINED}; login and head node when --replace names them")
_TAG = Update(Change.LIVE, "tags change while the grid runs")


class CloudMachine(SpecModel):
    """A machine beside the nodes that run jobs."""

    instance: Annotated[Instance, Update(Change.ROLLING, "it is stopped and started, with its disk")] = Field(
        default="m6i.large", description="Its instance type; m6i.large by default."
    )


class Alarms(SpecModel):
    """Who is told when an alarm of the grid is raised."""

    topic: Annotated[Topic, Update(Change.LIVE, "alarms are changed in place")] = Field(
        description="The SNS topic that alarms are sent to; who is subscribed to it gets them. It is the "
        "site's, in the region of the grid."
    )
    budget: Annotated[Budget | None, Update(Change.LIVE, "a budget of AWS is changed, or made anew")] = Field(
        default=None,
        description="What the grid may cost, such as 3000 USD/month: the topic is told when 80 and 100 % of "
        "it are spent in a month, and when the forecast is above it.",
    )


class Images(SpecModel):
    """Machine images: an AMI's ID, or the name of an SSM parameter that holds one.

    What a name stands for is looked up by the first `up`, and kept until the spec has another one.
    """

    compute: Annotated[Image | None, _LAUNCHED] = Field(
        default=None,
        description="Of nodes, head and login node: an AMI, or the SSM parameter that names one, kept as the "
        "first up finds it. By default Ubuntu 24.04, as Canonical names it in SSM.",
    )
    distribution: Annotated[
        DistributionName | None,
        Update(Change.ROLLING, "nodes are replaced where their disk has another name"),
    ] = Field(
        default=None,
        description="What the image of nodes, head and login node is, such as rocky-9 or amzn-2023. Names of "
        "public SSM parameters tell it; of an AMI's ID, up --check says what to write.",
    )
    storage: Annotated[Image | None, Update(Change.ROLLING, "servers are replaced one at a time")] = Field(
        default=None,
        description="Of Lustre servers: one whose kernel has the server packages of Lustre, such as "
        "Rocky Linux 9. Needed where Gridwright builds a Lustre.",
    )


class Aws(SpecModel):
    """What only provider aws has."""

    zone: Annotated[Zone, Update(Change.NEVER, "volumes and file systems cannot leave their zone")] = Field(
        description="The one availability zone that everything is in, such as us-east-1a."
    )
    ssh_from: Annotated[list[SshRange], Update(Change.LIVE, "the login node's firewall is changed")] = Field(
        min_length=1,
        description="Ranges of addresses that ssh to the login node is let in from. There is no default.",
    )
    egress: Annotated[list[Egress], _EGRESS] = Field(
        default_factory=list,
        description="What else login node, head node, nodes and other machines reach beyond the network. By "
        "default HTTPS, HTTP and NTP alone, or the proxy, and the file servers that the spec names.",
    )
    ingress: Annotated[list[Ingress], Update(Change.LIVE, "rules of firewalls are added or removed")] = Field(
        default_factory=list,
        description="Ports of machines that others may reach beside those that the grid needs, such as "
        "[{role: login, source: 10.0.0.0/8, ports: 443}].",
    )
    network: Annotated[
        Annotated[str, AfterValidator(_network), WithJsonSchema({"type": "string"})], _MADE_ANEW
    ] = Field(default=NETWORK, description="The private range of the grid's own VPC.")
    subnets: Annotated[Subnets, _MADE_ANEW] = Field(
        default_factory=Subnets, description="Parts of the network."
    )
    vpc: Annotated[ExistingVpc | None, _MADE_ANEW] = Field(
        default=None,
        description="A VPC of the site's that the grid is put into, instead of network and subnets. It is "
        "not changed: the grid makes no subnet, route, gateway or endpoint then.",
    )
    proxy: Annotated[
        Proxy | None, Update(Change.ROLLING, f"{_DRAINED}; login and head node are stopped and started")
    ] = Field(
        default=None,
        description="A web proxy that nodes reach the outside through, such as http://proxy.example:3128; "
        "with it there is neither a NAT gateway nor a public subnet's route. By default a NAT gateway.",
    )
    key: Annotated[KeyPair | None, _LAUNCHED] = Field(
        default=None,
        description="The EC2 key pair that lets administrators in. By default Session Manager alone does.",
    )
    images: Annotated[Images, _LAUNCHED] = Field(default_factory=Images, description="Machine images.")
    head: Annotated[CloudMachine, Update(Change.ROLLING, "it keeps its disk, and the queue")] = Field(
        default_factory=CloudMachine, description="The machine that the scheduler runs on."
    )
    login: Annotated[CloudMachine, Update(Change.ROLLING, "users log in again")] = Field(
        default_factory=CloudMachine, description="The machine that users log in to, in the public subnet."
    )
    hyperthreads: Annotated[bool, Update(Change.ROLLING, _DRAINED)] = Field(
        default=True, description="Whether each core of a node runs two threads, where its type can."
    )
    efa: Annotated[bool, Update(Change.ROLLING, _DRAINED)] = Field(
        default=False, description="Whether nodes have an Elastic Fabric Adapter; only some types can."
    )
    replace_nodes: Annotated[
        bool, Update(Change.REBUILD, "down, and then up: nodes keep their addresses")
    ] = Field(
        default=True,
        description="Whether a node that died is replaced by itself: nodes are an Auto Scaling group of "
        "fixed size then. Servers of file systems always are.",
    )
    drain_limit: Annotated[
        Duration | None, Update(Change.LIVE, "the head node reads it when it next replaces a node")
    ] = Field(
        default=None,
        description="How long a node that is to be replaced waits for its jobs, such as 12h: then they start "
        "again elsewhere, or end where they may not. By default it waits for as long as they run.",
    )
    placement_group: Annotated[bool, Update(Change.ROLLING, f"{_DRAINED}; servers one at a time")] = Field(
        default=True, description="Whether nodes and servers are placed close together, in a cluster group."
    )
    kms_key: Annotated[
        KmsKey | None, Update(Change.REBUILD, "a file system or volume keeps its key; data are copied")
    ] = Field(
        default=None,
        description="The KMS key that everything at rest is encrypted with. By default those of AWS.",
    )
    certificate: Annotated[
        Certificate | None, Update(Change.LIVE, "the head node begins to serve the console; jobs go on")
    ] = Field(
        default=None,
        description="The certificate of the console, the page on which the grid is watched: the head node "
        "serves it behind an internal load balancer. Its image has /usr/local/bin/gridwright, or a role of "
        "setup.before installs it. Without a certificate there is no such page.",
    )
    permissions_boundary: Annotated[
        Boundary | None, Update(Change.LIVE, "the roles of machines are changed in place")
    ] = Field(
        default=None,
        description="The managed policy that bounds what every role of the grid may do. The policies of the "
        "operator, which render writes, allow roles with this boundary alone then.",
    )
    depots: Annotated[list[Depot], Update(Change.LIVE, "the roles of machines are changed in place")] = Field(
        default_factory=list,
        description="Directories in buckets that login node, head node and nodes may read, such as "
        "s3://our-depots/sas: what roles of the site install products from.",
    )
    alarms: Annotated[Alarms | None, Update(Change.LIVE, "alarms are changed in place")] = Field(
        default=None,
        description="Whom alarms call. By default nobody: they stand in the console of CloudWatch.",
    )
    dashboard: Annotated[bool, Update(Change.LIVE, "it is made or removed")] = Field(
        default=True,
        description="Whether the grid has a dashboard in CloudWatch; an account has three for nothing.",
    )
    owner: Annotated[Owner | None, _TAG] = Field(
        default=None, description="Who answers for the grid: the tag owner on everything."
    )
    expires: Annotated[
        Annotated[str, PlainValidator(_day), WithJsonSchema({"type": "string", "format": "date"})] | None,
        _TAG,
    ] = Field(
        default=None,
        description="The day it is no longer needed, such as 2027-01-31: the tag expires on everything.",
    )

    @property
    def networks(self) -> tuple[ipaddress.IPv4Network, ...]:
        """Ranges of the VPC that the grid is in."""
        given = [self.network] if self.vpc is None else self.vpc.networks
        return tuple(ipaddress.IPv4Network(each) for each in given)

    @property
    def makes_way_out(self) -> bool:
        """Whether the grid has an internet gateway and a NAT gateway of its own."""
        return self.vpc is None and self.proxy is None

    @property
    def has_public_login(self) -> bool:
        """Whether the login node has an address on the Internet."""
        return self.proxy is None if self.vpc is None else self.vpc.public_address
