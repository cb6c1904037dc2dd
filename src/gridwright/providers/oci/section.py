"""What only provider oci has: compartment, network, access, images, machines beside the nodes, tags.

The one availability domain of a grid: what people write who want another form of it, or several.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from gridwright.errors import nearest
from gridwright.providers.cloud import first_free, let_in, parsed_range, private_network
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

FIELD = "availability_domain"
MOST_DOMAINS = 3
"""Of a region (OCI, Regions and Availability Domains)."""
WHY_ONE = (
    "a grid is in one availability domain: a volume is attached in its own domain alone, so that the servers "
    "of a pair cannot be in two"
)
_ELSEWHERE = "file systems of type oci-file-storage alone have an availability_domain of their own"


def one_domain(value: object) -> object:
    """The number as it is written; the model holds its range. Raises FieldError for all else."""
    if isinstance(value, list):
        numbers = [number for each in value if (number := _number(each))]
        raise FieldError(WHY_ONE, f"write {FIELD}: {numbers[0] if numbers else 1}; {_ELSEWHERE}")
    if isinstance(value, str):
        number = _number(value)
        near = f"{FIELD}: {number}" if number else f"1, 2 or {MOST_DOMAINS}"
        why = "" if value.strip().isdigit() else ": names differ from tenancy to tenancy"
        raise FieldError(
            f"{show(value)} is no number of an availability domain{why}",
            f"write {near}, its number in the region",
        )
    return value


def several_domains(name: str) -> tuple[str, str] | None:
    """Why there is no field for several of them, and the remedy; None for the name of another field."""
    if name.lower().rstrip("s") in (FIELD, "availabilitydomain", "ad", "zone", "availability_zone"):
        return (f"there is no field {show(name)} in oci: {WHY_ONE}", f"write {FIELD}: 1; {_ELSEWHERE}")
    return None


def _number(value: object) -> int | None:
    """The number at the end of what is written, such as 2 or Uocm:US-ASHBURN-AD-2."""
    found = re.fullmatch(rf"(?:.*ad-?)?([1-{MOST_DOMAINS}])", str(value).strip(), re.IGNORECASE | re.ASCII)
    return int(found[1]) if found else None


NETWORK = "10.30.0.0/16"
"""Of a grid that names none."""
SUBNETS = ("public", "fs", "storage")
"""The bastion's; that of nodes and of what clients reach of servers; that of block volumes by iSCSI."""
SERVICES = "services"
"""The subnet of file systems that Oracle runs: it chooses addresses there, so no machine is in it."""
LARGEST_NETWORK, SMALLEST_NETWORK = 16, 24
"""Prefixes of a VCN that three subnets fit into: OCI has VCNs from /16 to /30 (OCI, VCNs and subnets)."""
MOST_TAGS = 7
"""A resource has ten free-form tags at most (OCI, tagging overview, limits on tags); three are the grid's."""
LONGEST_SESSION_S = 3 * 3600
"""Of a session of the bastion service (OCI, Bastion, creating a bastion: maximum session time-to-live)."""
Deployment = Literal["resource-manager", "tofu", "terraform"]


def default_subnets(network: ipaddress.IPv4Network) -> dict[str, ipaddress.IPv4Network]:
    """The parts of a network that subnets are by default: the upper half is for nodes, a quarter for volumes.

    Of the other quarter the bastion has half; what services need comes out of what is free.
    """
    low, high = network.subnets(prefixlen_diff=1)
    first, storage = low.subnets(prefixlen_diff=1)
    public, _ = first.subnets(prefixlen_diff=1)
    return {"public": public, "fs": high, "storage": storage}


def ocid(kind: str) -> object:
    """Metadata of a field that holds the OCID of a resource (OCI, resource identifiers)."""
    pattern, first = kind.replace("|", " or "), kind.partition("|")[0]
    return matching(
        rf"^ocid1\.(?:{kind})\.[a-z0-9-]+\.[a-z0-9-]*(?:\.[a-z0-9-]+)?\.[a-z0-9]+$",
        f"the OCID of a {pattern}",
        f"its OCID, ocid1.{first}...",
    )


def _network(value: str) -> str:
    example = f"write a private range from /{LARGEST_NETWORK} to /{SMALLEST_NETWORK}, such as {NETWORK}"
    unfit = "three subnets of a VCN fit into"
    return private_network(value, example, LARGEST_NETWORK, SMALLEST_NETWORK, unfit)


def _subnet(value: str) -> str:
    return str(parsed_range(value, "write a part of oci.network, such as 10.30.0.0/18"))


def _distribution(value: str) -> str:
    from gridwright.setup.distributions import distributions

    known = {each.name: each for each in distributions() if each.is_on_oci}
    if value not in known:
        near = nearest(value, known)
        raise FieldError(
            f"{show(value)} is no distribution that grids on OCI can have",
            f"did you mean {near}?" if near else f"write one of {', '.join(known)}",
        )
    return value


_RANGE = WithJsonSchema({"type": "string", "format": "ipv4-network"})
_MADE_ANEW = Update(Change.NEVER, "everything lies in it; make another grid")
_LAUNCHED = Update(Change.ROLLING, "machines are made anew, one after the other; volumes stay")
_FIREWALL = Update(Change.LIVE, "rules of network security groups change while the grid runs")
_TAG = Update(Change.LIVE, "tags change while the grid runs")
Range = Annotated[str, AfterValidator(_subnet), _RANGE]
SshRange = Annotated[str, AfterValidator(let_in), _RANGE]
Shape = Annotated[
    str,
    matching(
        r"^(?:VM|BM)\.[A-Za-z0-9.]+(?:\([1-9][0-9]{0,2}\))?$",
        "a shape of OCI",
        "one of gridwright catalog list --provider oci, such as VM.Standard.E5.Flex(4)",
    ),
]
PublicKey = Annotated[
    str,
    matching(
        r"^(?:ssh-(?:rsa|ed25519)|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/=]{16,2000}(?: [ -~]{0,99})?$",
        "a public key of OpenSSH",
        "one line of a file such as ~/.ssh/id_ed25519.pub",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI... admin@example.com",
    ),
]
TagKey = Annotated[
    str,
    matching(
        r"^(?![Gg]ridwright-)[!-\-/-~]{1,100}$",
        "the name of a tag",
        "printable characters without spaces and periods; names that begin with gridwright- are the grid's",
    ),
]
TagValue = Annotated[
    str, matching(r"^[ -~]{0,256}$", "the value of a tag", "printable characters, at most 256")
]
StateDirectory = Annotated[
    str, matching(r"^[^\0\n]{1,4000}$", "a path", "the path of a directory, such as oci-state")
]
UserName = Annotated[
    str,
    matching(r"^[a-z_][a-z0-9_-]{0,31}$", "the name of a user", "the user of the image, such as opc", "opc"),
]
DistributionName = Annotated[
    str,
    AfterValidator(_distribution),
    WithJsonSchema({"type": "string", "pattern": "^[a-z]+-[0-9.]+$", "examples": ["rocky-9"]}),
]


class OciSubnets(SpecModel):
    """Parts of the VCN; those that are not named have parts of it by default, nodes its upper half."""

    public: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None, description="Of the bastion, the only one that the Internet reaches."
    )
    fs: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None, description="Of nodes, head and login node, and of what clients reach of file servers."
    )
    storage: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None, description="Of block volumes: the first network card of servers that have two."
    )
    services: Annotated[Range | None, _MADE_ANEW] = Field(
        default=None,
        description="Of file systems that Oracle runs; machines have none of its addresses. Managed Lustre "
        "takes up to 60 for each 100 TB.",
    )

    def given(self) -> dict[str, str]:
        """Ranges that the spec names, by subnet."""
        return {name: value for name in (*SUBNETS, SERVICES) if (value := getattr(self, name)) is not None}


class OciSubnetIds(SpecModel):
    """The site's own subnets, by what the grid uses each for."""

    public: Annotated[Annotated[str, ocid("subnet")], _MADE_ANEW] = Field(
        description="OCID of the bastion's."
    )
    fs: Annotated[Annotated[str, ocid("subnet")], _MADE_ANEW] = Field(
        description="OCID of the nodes' subnet."
    )
    storage: Annotated[Annotated[str, ocid("subnet")], _MADE_ANEW] = Field(
        description="OCID of the subnet that reaches block volumes."
    )
    services: Annotated[Annotated[str, ocid("subnet")] | None, _MADE_ANEW] = Field(
        default=None, description="OCID of the subnet of file systems that Oracle runs, where there are any."
    )


class OciVcn(SpecModel):
    """A VCN of the site's that the grid is put into."""

    id: Annotated[Annotated[str, ocid("vcn")], _MADE_ANEW] = Field(description="Its OCID.")
    network: Annotated[Annotated[str, AfterValidator(_network), _RANGE], _MADE_ANEW] = Field(
        description="Its range of addresses."
    )
    ranges: Annotated[OciSubnets, _MADE_ANEW] = Field(
        description="The range of each of its subnets, or the part of it that is kept for the grid."
    )
    subnets: Annotated[OciSubnetIds, _MADE_ANEW] = Field(description="Its subnets.")


class Oci(SpecModel):
    """What only provider oci has."""

    compartment: Annotated[Annotated[str, ocid("compartment|tenancy")], _MADE_ANEW] = Field(
        description="OCID of the compartment that everything is made in."
    )
    ssh_from: Annotated[list[SshRange], _FIREWALL] = Field(
        min_length=1,
        description="Ranges of addresses that ssh to the bastion is let in from. There is no default.",
    )
    ssh_key: Annotated[PublicKey, _LAUNCHED] = Field(
        description="The public key that lets administrators in, as OpenSSH writes it."
    )
    network: Annotated[Annotated[str, AfterValidator(_network), _RANGE], _MADE_ANEW] = Field(
        default=NETWORK, description="The private range of the grid's own VCN."
    )
    subnets: Annotated[OciSubnets, _MADE_ANEW] = Field(
        default_factory=OciSubnets, description="Parts of the network."
    )
    vcn: Annotated[OciVcn | None, _MADE_ANEW] = Field(
        default=None,
        description="A VCN of the site's that the grid is put into, instead of network and subnets. The grid "
        "makes no subnet, route or gateway then.",
    )
    availability_domain: Annotated[int, BeforeValidator(one_domain), _MADE_ANEW] = Field(
        default=1,
        ge=1,
        le=MOST_DOMAINS,
        description="The availability domain that everything is in, by its number in the region.",
    )
    bastion: Annotated[Literal["host", "service"], Update(Change.LIVE, "it is made or removed")] = Field(
        default="host",
        description="How administrators come in: host is a login machine in the public subnet, service is "
        "the bastion service of OCI, whose sessions last three hours at most.",
    )
    distribution: Annotated[DistributionName, _LAUNCHED] = Field(
        default="ubuntu-24.04",
        description="The Linux of all machines, such as rocky-9; one that OCI has no platform image of needs "
        "image, too.",
    )
    user: Annotated[UserName | None, Update(Change.LIVE, "it only says who logs in")] = Field(
        default=None,
        description="Whom ssh_key lets in, which the image decides: by default the user of the "
        "distribution's own images, such as ubuntu, rocky, or opc of Oracle Linux.",
    )
    image: Annotated[Annotated[str, ocid("image")] | None, _LAUNCHED] = Field(
        default=None,
        description="OCID of the image of all machines. By default the newest platform image of the "
        "distribution when a machine is first made: it stays until the machine is made anew.",
    )
    server_image: Annotated[Annotated[str, ocid("image")] | None, _LAUNCHED] = Field(
        default=None,
        description="OCID of the image of servers of file systems, where it is another one: those of Lustre "
        "need a kernel that Lustre's server packages are made for, such as one of Rocky Linux 9. By default "
        "that of all machines.",
    )
    cluster_placement: Annotated[bool, _LAUNCHED] = Field(
        default=False, description="Whether nodes are placed close together, in a cluster placement group."
    )
    capacity_reservation: Annotated[Annotated[str, ocid("capacityreservation")] | None, _LAUNCHED] = Field(
        default=None, description="OCID of the reservation whose capacity nodes use."
    )
    key: Annotated[
        Annotated[str, ocid("key")] | None, Update(Change.REBUILD, "a volume keeps its key; data are copied")
    ] = Field(
        default=None,
        description="OCID of the vault's key that volumes, file systems and the bucket are encrypted with. "
        "By default Oracle's own.",
    )
    tags: Annotated[dict[TagKey, TagValue], _TAG] = Field(
        default_factory=dict,
        max_length=MOST_TAGS,
        description="Free-form tags of everything, beside those of the grid itself; at most 7.",
    )
    head: Annotated[Shape, Update(Change.ROLLING, "it is stopped and started, with its disk")] = Field(
        default="VM.Standard.E5.Flex(4)", description="The shape of the grid control server."
    )
    login: Annotated[Shape, Update(Change.ROLLING, "it is stopped and started, with its disk")] = Field(
        default="VM.Standard.E5.Flex(1)", description="The shape of the bastion host."
    )
    deploy: Annotated[Deployment, Update(Change.NEVER, "each keeps a state of its own")] = Field(
        default="resource-manager",
        description="What makes the grid: OCI Resource Manager, which keeps the state, or tofu or terraform "
        "on the machine that gridwright up runs on, whose state lies in oci.state.",
    )
    state: Annotated[StateDirectory | None, Update(Change.NEVER, "move the directory first")] = Field(
        default=None,
        description="Directory of the state of a local tofu or terraform, relative to this file; by default "
        "NAME.terraform beside it. Whoever has lost it can neither change nor remove the grid: keep copies.",
    )

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str] | None:
        """Whoever names several availability domains is told why a grid has one."""
        return several_domains(name)

    @property
    def ranges(self) -> dict[str, ipaddress.IPv4Network]:
        """The range of each subnet that machines have their addresses from."""
        given = self.subnets if self.vcn is None else self.vcn.ranges
        network = ipaddress.IPv4Network(self.network if self.vcn is None else self.vcn.network)
        named = {name: ipaddress.IPv4Network(value) for name, value in given.given().items()}
        ranges = default_subnets(network) | named
        eighth = network.prefixlen + 3
        if SERVICES not in ranges and (free := first_free(network, ranges.values(), eighth)) is not None:
            ranges[SERVICES] = free
        return ranges
