"""What only provider aws has: network, access, images, machines beside the nodes, tags."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from gridwright.errors import nearest
from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

NETWORK = "10.20.0.0/16"
"""Of a grid that names none."""
SUBNETS = ("public", "storage", "compute")
LAST_PORT = 65535
WIDEST_SSH = 8
"""Shortest prefix of a range that ssh is let in from: a site's own addresses are never more."""
_ARN = r"^arn:aws[a-z-]*:{}:[a-z0-9-]+:[0-9]{{12}}:{}/[A-Za-z0-9/_-]+$"
_PORT = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


def default_subnets(network: ipaddress.IPv4Network) -> dict[str, ipaddress.IPv4Network]:
    """The parts of a network that subnets are by default: two quarters, and the upper half."""
    low, high = network.subnets(prefixlen_diff=1)
    public, storage = low.subnets(prefixlen_diff=1)
    return dict(zip(SUBNETS, (public, storage, high), strict=True))


def _network(value: str) -> str:
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
    example = "write the addresses that your users come from, such as 203.0.113.0/24"
    network = _range(value, example, widest=WIDEST_SSH)
    if network.prefixlen == 0:
        raise FieldError(f"{value} lets everybody on the Internet try to log in", example)
    if network.prefixlen < WIDEST_SSH:
        near = ipaddress.IPv4Network((network.network_address, WIDEST_SSH))
        raise FieldError(f"{value} is a large part of the Internet", f"write {near}, or a narrower range")
    return str(network)


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


Range = Annotated[str, AfterValidator(_subnet), WithJsonSchema({"type": "string", "format": "ipv4-network"})]
Reached = Annotated[
    str, AfterValidator(_reached), WithJsonSchema({"type": "string", "format": "ipv4-network"})
]
SshRange = Annotated[
    str, AfterValidator(_ssh_range), WithJsonSchema({"type": "string", "format": "ipv4-network"})
]
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

_MADE_ANEW = Update(Change.NEVER, "everything lies in it; make another grid")
_EGRESS = Update(Change.LIVE, "the firewall of login node, head node and nodes is changed")
_TAG = Update(Change.LIVE, "tags change while the grid runs")


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
        default=None, description="For nodes that run jobs, and the head node. By default the upper half."
    )

    def given(self) -> Mapping[str, str]:
        """Those that the spec names."""
        named = {"public": self.public, "storage": self.storage, "compute": self.compute}
        return {name: value for name, value in named.items() if value is not None}


class Egress(SpecModel):
    """What login node, head node and nodes reach beyond the network, besides the web and file servers."""

    to: Annotated[Reached, _EGRESS] = Field(
        description="Addresses, such as 10.9.0.7/32 for a licence server or a database."
    )
    ports: Annotated[
        Annotated[
            str,
            PlainValidator(_ports),
            WithJsonSchema({"type": ["integer", "string"], "examples": [1433, "27000-27009"]}),
        ],
        _EGRESS,
    ] = Field(description="A port, or the first and the last of several: 1433, or 27000-27009.")
    protocol: Annotated[Literal["tcp", "udp"], _EGRESS] = Field(
        default="tcp", description="Of these ports: tcp or udp."
    )

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last port."""
        first, _, last = self.ports.partition("-")
        return int(first), int(last or first)


class CloudMachine(SpecModel):
    """A machine beside the nodes that run jobs."""

    instance: Annotated[Instance, Update(Change.ROLLING, "the machine is replaced")] = Field(
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
    """Machine images: an AMI's ID, or the name of an SSM parameter that holds one."""

    compute: Annotated[Image | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None,
        description="Of nodes, head and login node. By default Ubuntu 24.04, as Canonical names it in SSM.",
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
        description="What else login node, head node and nodes reach beyond the network. By default HTTPS, "
        "HTTP and NTP alone, or the proxy, and the file servers that the spec names.",
    )
    network: Annotated[
        Annotated[str, AfterValidator(_network), WithJsonSchema({"type": "string"})], _MADE_ANEW
    ] = Field(default=NETWORK, description="The private range of the grid's own VPC.")
    subnets: Annotated[Subnets, _MADE_ANEW] = Field(
        default_factory=Subnets, description="Parts of the network."
    )
    proxy: Annotated[
        Proxy | None,
        Update(Change.ROLLING, "nodes are replaced one at a time"),
    ] = Field(
        default=None,
        description="A web proxy that nodes reach the outside through, such as http://proxy.example:3128; "
        "with it there is neither a NAT gateway nor a public subnet's route. By default a NAT gateway.",
    )
    key: Annotated[
        KeyPair | None,
        Update(Change.ROLLING, "nodes are replaced one at a time"),
    ] = Field(
        default=None,
        description="The EC2 key pair that lets administrators in. By default Session Manager alone does.",
    )
    images: Annotated[Images, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default_factory=Images, description="Machine images."
    )
    head: Annotated[CloudMachine, Update(Change.ROLLING, "queued jobs are kept where the state is")] = Field(
        default_factory=CloudMachine, description="The machine that the scheduler runs on."
    )
    login: Annotated[CloudMachine, Update(Change.ROLLING, "users log in again")] = Field(
        default_factory=CloudMachine, description="The machine that users log in to, in the public subnet."
    )
    hyperthreads: Annotated[bool, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=True, description="Whether each core of a node runs two threads, where its type can."
    )
    efa: Annotated[bool, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=False, description="Whether nodes have an Elastic Fabric Adapter; only some types can."
    )
    replace_nodes: Annotated[bool, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=True,
        description="Whether a node that died is replaced by itself: nodes are an Auto Scaling group of "
        "fixed size then. Servers of file systems always are.",
    )
    placement_group: Annotated[bool, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=True, description="Whether nodes and servers are placed close together, in a cluster group."
    )
    kms_key: Annotated[
        KmsKey | None, Update(Change.REBUILD, "a file system or volume keeps its key; data are copied")
    ] = Field(
        default=None,
        description="The KMS key that everything at rest is encrypted with. By default those of AWS.",
    )
    certificate: Annotated[
        Certificate | None,
        Update(Change.LIVE, "servers of Lustre begin to tell their health as they run"),
    ] = Field(
        default=None,
        description="The certificate of the page that shows Lustre's health, behind an internal load "
        "balancer. Without one there is no such page.",
    )
    permissions_boundary: Annotated[
        Boundary | None, Update(Change.LIVE, "the roles of machines are changed in place")
    ] = Field(
        default=None,
        description="The managed policy that bounds what every role of the grid may do. The policies of the "
        "operator, which render writes, allow roles with this boundary alone then.",
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
