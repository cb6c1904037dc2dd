"""What `up` of a grid on OCI would fail of, each look for itself: what may not be looked at is said.

OCI tells nobody what they may do. Verbs of a policy include each other, though (inspect, read, use, manage):
who may not even list resources of a kind may make none, unless a policy lets them make what it hides.

Which limits a shape counts against, OCI says itself (Shape.quotaNames). Those of volumes are of the service
block-storage (OCI, Block Volume limits: total-storage-gb, volume-count).
"""

from __future__ import annotations

import csv
import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Any, TypeVar

from gridwright.errors import GRAVEST_FIRST, Finding, GridwrightError
from gridwright.providers.oci.deploy import deployer_of
from gridwright.providers.oci.down import namespace, unknown_grid
from gridwright.providers.oci.files import checked_layout
from gridwright.providers.oci.layout import (
    BOOT_VOLUME_GB,
    PLATFORM_IMAGES,
    OciLayout,
    OciMachine,
    OciRole,
    is_there,
    oci_section,
)
from gridwright.providers.oci.session import COMPUTE, NETWORK, OciCallError, OciCloud
from gridwright.providers.oci.terraform.machines import named_image
from gridwright.providers.oci.terraform.storage import storage_root
from gridwright.providers.provider import Caller, Preflight, QuotaUse, not_looked_at
from gridwright.spec.model import GridSpec


def site_network_findings(cloud: OciCloud, layout: OciLayout, domain: str) -> Iterator[Finding]:
    """All that is wrong with them; nothing where the grid makes its own network."""
    vcn = layout.oci.vcn
    if vcn is None:
        return
    if cloud.call_or_none(*NETWORK, "get_vcn", vcn.id) is None:
        yield _missing("VCN", vcn.id, "oci.vcn.id")
        return
    for name, network in layout.subnets.items():
        ocid = getattr(vcn.subnets, name)
        field = f"oci.vcn.subnets.{name}"
        found = cloud.call_or_none(*NETWORK, "get_subnet", ocid) if ocid else None
        if found is None:
            yield _missing("subnet", str(ocid), field)
            continue
        for problem, remedy in _wrong(found, vcn.id, name, network, domain):
            yield Finding("error", "subnet-unfit", f"subnet {found.display_name} ({field}) {problem}", remedy)


def _wrong(
    found: Any,  # noqa: ANN401
    vcn: str,
    name: str,
    network: ipaddress.IPv4Network,
    domain: str,
) -> Iterator[tuple[str, str]]:
    if found.lifecycle_state != "AVAILABLE":
        yield f"is {found.lifecycle_state.lower()}", "wait, or name another one"
    if found.vcn_id != vcn:
        yield f"is in another VCN, {found.vcn_id}", "name a subnet of oci.vcn.id"
    if not network.subnet_of(ipaddress.IPv4Network(found.cidr_block)):
        yield (
            f"is {found.cidr_block}, and machines of the grid have addresses of {network}",
            f"write oci.vcn.ranges.{name}: {found.cidr_block}, or the part of it that is kept for the grid",
        )
    if found.availability_domain not in (None, domain):
        yield (
            f"is in {found.availability_domain} alone, and the grid in {domain}",
            "name a regional subnet, or another oci.availability_domain",
        )
    if name == "public" and found.prohibit_public_ip_on_vnic:
        yield "lets no machine have a public address: nobody reaches the bastion", "name a public subnet"


def _missing(what: str, ocid: str, field: str) -> Finding:
    return Finding(
        "error",
        "network-unknown",
        f"these credentials see no {what} {ocid}",
        f"correct {field}, or have a policy let you use virtual-network-family in its compartment",
    )


@dataclass(frozen=True, slots=True)
class ShapeNeed:
    """Machines that are alike to OCI, in one fault domain."""

    shape: str
    ocpus: int | None
    memory_gib: int | None
    fault_domain: int
    is_reserved: bool
    """Whether they use the capacity of the spec's reservation."""
    image: str | None
    """OCID of the image that the spec names for them."""


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """What is to be made."""

    machines: Counter[ShapeNeed]
    volumes: int
    volume_gib: int
    """Of block volumes and boot volumes."""

    def shapes_of(self, image: str | None) -> list[str]:
        """Shapes that start from an image that the spec names, or from platform images; each once."""
        return list(dict.fromkeys(each.shape for each in self.machines if each.image == image))

    @property
    def shapes(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(each.shape for each in self.machines))

    @property
    def reserved(self) -> int:
        """Machines that use reserved capacity."""
        return sum(number for each, number in self.machines.items() if each.is_reserved)


def still_needed(layout: OciLayout, machines: Collection[str], volumes: Collection[str]) -> StillNeeded:
    """All of the layout but the machines and volumes of these names, which are there."""
    made = [each for each in layout.machines if each.name not in machines]
    disks = [each for each in layout.volumes if each.name not in volumes]
    return StillNeeded(
        Counter(_need(layout, each) for each in made),
        len(disks) + len(made),
        sum(each.gib for each in disks) + BOOT_VOLUME_GB * len(made),
    )


def _need(layout: OciLayout, machine: OciMachine) -> ShapeNeed:
    is_reserved = layout.oci.capacity_reservation is not None and machine.role is OciRole.COMPUTE
    return ShapeNeed(
        machine.shape,
        machine.ocpus,
        machine.memory_gib,
        machine.fault_domain,
        is_reserved,
        named_image(layout, machine),
    )


_ELSEWHERE = (
    "choose another shape in the spec, or another availability domain; gridwright catalog list --provider oci"
)


def sold_shapes(cloud: OciCloud, compartment: str, domain: str) -> dict[str, Any]:
    """Shapes of the availability domain by name, as OCI describes them. Raises OciCallError."""
    found = cloud.listed(*COMPUTE, "list_shapes", compartment, availability_domain=domain)
    return {each.shape: each for each in found}


def shape_findings(needed: StillNeeded, sold: Mapping[str, Any], domain: str) -> Iterator[Finding]:
    """Shapes that are not sold there, and sizes that they do not come in."""
    for shape in needed.shapes:
        if shape not in sold:
            yield Finding(
                "error", "shape-not-offered", f"{domain} has no shape {shape} for this tenancy", _ELSEWHERE
            )
            continue
        sizes = {(each.ocpus, each.memory_gib) for each in needed.machines if each.shape == shape}
        for ocpus, memory in sorted(sizes, key=str):
            if ocpus is not None and memory is not None:
                yield from _size(shape, ocpus, memory, sold[shape])


def _size(shape: str, ocpus: int, memory: int, found: Any) -> Iterator[Finding]:  # noqa: ANN401
    limits = (
        ("OCPUs", ocpus, found.ocpu_options, "min", "max"),
        ("GB of memory", memory, found.memory_options, "min_in_g_bs", "max_in_g_bs"),
    )
    for what, required, options, low, high in limits:
        least, most = getattr(options, low, None), getattr(options, high, None)
        if (least is not None and required < least) or (most is not None and required > most):
            yield Finding(
                "error",
                "shape-size-not-offered",
                f"{shape} has {least:g} to {most:g} {what}, and the spec wants {required:g}",
                "write a size within that, or another shape",
            )


def image_findings(cloud: OciCloud, layout: OciLayout, needed: StillNeeded) -> Iterator[Finding]:
    """Whether each shape has an image that it starts from."""
    oci = layout.oci
    for image in dict.fromkeys(each.image for each in needed.machines if each.image is not None):
        yield from _own_image(cloud, image, needed)
    shapes = needed.shapes_of(None)
    if not shapes:
        return
    system, version = PLATFORM_IMAGES[oci.distribution]
    for shape in shapes:
        found = cloud.listed(
            *COMPUTE, "list_images", oci.compartment, operating_system=system,
            operating_system_version=version, shape=shape, lifecycle_state="AVAILABLE",
        )  # fmt: skip
        if not found:
            yield Finding(
                "error",
                "image-unknown",
                f"{cloud.region} has no platform image of {system} {version} that {shape} starts from",
                "write oci.image: with the OCID of an image that does, or another shape",
            )


def _own_image(cloud: OciCloud, image: str, needed: StillNeeded) -> Iterator[Finding]:
    found = cloud.call_or_none(*COMPUTE, "get_image", image)
    if found is None:
        yield Finding(
            "error",
            "image-unknown",
            f"these credentials see no image {image} in {cloud.region}",
            "write the OCID of one of this region in section oci, or have it shared",
        )
        return
    if found.lifecycle_state != "AVAILABLE":
        yield Finding(
            "error",
            "image-not-available",
            f"image {found.display_name} is {found.lifecycle_state.lower()}",
            "wait until it is available, or name another one in section oci",
        )
    fit = {each.shape for each in cloud.listed(*COMPUTE, "list_image_shape_compatibility_entries", image)}
    for shape in needed.shapes_of(image):
        # An image without entries says nothing of shapes.
        if fit and shape not in fit:
            yield Finding(
                "error",
                "image-of-another-architecture",
                f"{shape} does not start from image {found.display_name}",
                "name an image for this shape in section oci, or add the shape to it",
            )


def capacity_findings(cloud: OciCloud, needed: StillNeeded, domain: str) -> Iterator[Finding]:
    """Whether OCI has so many machines free at the moment; what is reserved is not asked for."""
    required = {each: number for each, number in needed.machines.items() if not each.is_reserved}
    if not required:
        return
    answers = _report(cloud, required, domain)
    for need, number in required.items():
        answer = answers.get((need.shape, need.ocpus, f"FAULT-DOMAIN-{need.fault_domain}"))
        if answer is None or answer.availability_status == "UNKNOWN_ENUM_VALUE":
            continue
        few = answer.available_count is not None and answer.available_count < number
        if answer.availability_status == "AVAILABLE" and not few:
            continue
        size = f"{need.shape}({need.ocpus})" if need.ocpus else need.shape
        free = "none" if answer.availability_status != "AVAILABLE" else f"{answer.available_count}"
        yield Finding(
            "error",
            "no-capacity",
            f"FAULT-DOMAIN-{need.fault_domain} of {domain} has {free} of the {number} {size} that are needed",
            "try later, write another shape or availability domain, or have capacity reserved "
            "(oci.capacity_reservation)",
        )


def _report(
    cloud: OciCloud, required: Iterable[ShapeNeed], domain: str
) -> dict[tuple[str, float | None, str], Any]:
    """Answers by shape, OCPUs and fault domain."""
    from oci.core import models

    asked = []
    for each in required:
        size = None
        if each.ocpus is not None:
            size = models.CapacityReportInstanceShapeConfig(ocpus=each.ocpus, memory_in_gbs=each.memory_gib)
        asked.append(
            models.CreateCapacityReportShapeAvailabilityDetails(
                fault_domain=f"FAULT-DOMAIN-{each.fault_domain}",
                instance_shape=each.shape,
                instance_shape_config=size,
            )
        )
    details = models.CreateComputeCapacityReportDetails(
        # OCI makes these reports of a tenancy, and not of a compartment.
        compartment_id=cloud.tenancy, availability_domain=domain, shape_availabilities=asked,
    )  # fmt: skip
    report = cloud.call(*COMPUTE, "create_compute_capacity_report", details)
    return {
        (each.instance_shape, getattr(each.instance_shape_config, "ocpus", None), each.fault_domain): each
        for each in report.shape_availabilities
    }


@dataclass(frozen=True, slots=True)
class LimitNeed:
    """What is needed of one limit."""

    service: str
    name: str
    unit: str
    needed: float


def limit_needs(layout: OciLayout, needed: StillNeeded, sold: Mapping[str, Any]) -> list[LimitNeed]:
    """All limits that the grid counts against; reserved capacity is counted already."""
    counted: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each, number in needed.machines.items():
        shape = sold.get(each.shape)
        if shape is None or each.is_reserved:
            continue
        for name in dict.fromkeys(shape.quota_names or ()):
            unit, amount = _amount(name, each.ocpus or shape.ocpus, each.memory_gib or shape.memory_in_gbs)
            counted[name, unit] += number * amount
    found = [LimitNeed("compute", name, unit, amount) for (name, unit), amount in sorted(counted.items())]
    if needed.volumes:
        found.append(LimitNeed("block-storage", "total-storage-gb", "GB", needed.volume_gib))
        found.append(LimitNeed("block-storage", "volume-count", "volumes", needed.volumes))
    return found


def _amount(name: str, ocpus: float, memory: float) -> tuple[str, float]:
    """Unit and amount of one machine, by the name of the limit: cores, GB of memory, or machines."""
    if "memory" in name:
        return "GB", memory
    return ("OCPUs", ocpus) if "core" in name else ("machines", 1)


def limit_use(cloud: OciCloud, compartment: str, domain: str, need: LimitNeed) -> QuotaUse | None:
    """What is left of a limit; None where the service does not tell. Raises OciCallError."""
    asked = (need.service, need.name, compartment)
    try:
        found = _available(cloud, *asked, availability_domain=domain)
    except OciCallError as error:
        if error.http_status == 400:
            # Of the whole region, and not of an availability domain.
            found = _available(cloud, *asked)
        elif error.http_status == 404:
            return None
        else:
            raise
    left = found.fractional_availability if found.fractional_availability is not None else found.available
    if left is None:
        return None
    used = float(found.used or 0)
    code = f"{need.service}/{need.name}"
    return QuotaUse(need.name, code, need.unit, used + float(left), used, float(need.needed))


def _available(cloud: OciCloud, *asked: str, **more: str) -> Any:  # noqa: ANN401
    return cloud.call("limits", "LimitsClient", "get_resource_availability", *asked, **more)


def too_small(figures: Iterable[QuotaUse], region: str) -> Iterator[Finding]:
    """A finding for each limit that the grid does not fit into."""
    for each in figures:
        if not each.is_enough:
            yield Finding(
                "error",
                "quota-too-small",
                f"limit {each.name} ({each.code}) leaves {each.limit - each.used:g} "
                f"{each.unit} in {region}, and the grid needs {each.needed:g}",
                "ask for more in the console under Limits, Quotas and Usage, have an administrator raise the "
                "compartment's quota, or write fewer or smaller machines",
            )


NOT_ALLOWED = (403, 404)
"""Answers that leave a look undone: no right to it. OCI says 404 of what may not be seen."""
_DOMAIN = re.compile(r"\[(\d+)\]\.name")
"""How a root names the availability domain of a resource."""


@dataclass(frozen=True, slots=True)
class MadeKind:
    """A type of resource that a root makes; a row of data/made-resources.csv."""

    type: str
    what: str
    service: str
    client: str
    operation: str
    where: str
    """What its list is asked for: compartment, tenancy, domain, or namespace and compartment."""
    limit_service: str
    limit: str
    """Name of the limit that it counts against; empty where the service has none, or none by number."""
    policy: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class MadeNeed:
    """How many of a kind the grid has in a place."""

    kind: MadeKind
    domain: int | None
    """Index of the availability domain; None for what is of the region."""
    count: int


@cache
def made_kinds() -> dict[str, MadeKind]:
    """All kinds by Terraform's name of the type."""
    text = resources.files("gridwright.providers.oci").joinpath("data/made-resources.csv").read_text("utf-8")
    return {row["type"]: MadeKind(**row) for row in csv.DictReader(text.splitlines())}


def made_needs(spec: GridSpec, layout: OciLayout) -> list[MadeNeed]:
    """What the roots of a grid make, by kind and place."""
    counted: Counter[tuple[str, int | None]] = Counter()
    for name, named in storage_root(spec, layout).resources.items():
        for each in named.values():
            found = _DOMAIN.search(str(each.get("availability_domain", "")))
            counted[name, int(found[1]) if found else None] += 1
    counted["oci_identity_dynamic_group", None] += 1
    counted["oci_identity_policy", None] += 1
    counted["oci_bastion_bastion", None] += layout.oci.bastion == "service"
    counted["oci_cluster_placement_groups_cluster_placement_group", None] += layout.oci.cluster_placement
    kinds = made_kinds()
    return [
        MadeNeed(kinds[name], domain, count)
        for (name, domain), count in counted.items()
        if count and name in kinds
    ]


def look_at_made(
    cloud: OciCloud, layout: OciLayout, need: MadeNeed, domains: Sequence[str]
) -> Iterator[Finding | LimitNeed]:
    """What is still to be made against its limit, or that it may not be listed. Raises OciCallError."""
    kind = need.kind
    more = {"compartment_id": cloud.tenancy if kind.where == "tenancy" else layout.oci.compartment}
    if kind.where == "domain" and need.domain is not None:
        more["availability_domain"] = domains[need.domain]
    if kind.where == "namespace":
        more["namespace_name"] = namespace(cloud, layout.oci.compartment)
    try:
        listed: list[Any] = cloud.listed(kind.service, kind.client, kind.operation, **more)
    except OciCallError as error:
        if error.http_status not in NOT_ALLOWED:
            raise
        yield Finding(
            "warning",
            "rights-missing",
            f"these credentials may not list {kind.what}, and so may hardly make any: up makes {need.count}",
            f"have an administrator write the policy: allow group GROUP to {kind.policy}"
            f"{'' if kind.where == 'tenancy' else ' NAME'}",
        )
        return
    there = sum(is_there(each, layout.grid) for each in listed) if kind.limit else 0
    if kind.limit and need.count > there:
        yield LimitNeed(kind.limit_service, kind.limit, kind.what, need.count - there)


SYMMETRIC = "AES"
"""Of keys that other services encrypt with; RSA and ECDSA are for signatures (OCI, Vault, keys)."""
_OTHER = "write another key as oci.key, or leave it out: Oracle's own encrypts then"


def key_findings(cloud: OciCloud, key: str | None) -> Iterator[Finding]:
    """What is wrong with the key; nothing where the spec names none. Raises OciCallError."""
    if key is None:
        return
    region = _region(key)
    if region != cloud.region:
        yield _unfit(f"{key} is in {region}, and the grid in {cloud.region}")
        return
    found = next(iter(_searched(cloud, f"query key resources where identifier = '{key}'")), None)
    if found is None:
        yield _unseen(f"key {key}: the search of OCI shows none such", "inspect keys")
        return
    state = (found.lifecycle_state or "").upper()
    if state != "ENABLED":
        yield _unfit(f"{found.display_name} is {state.lower().replace('_', ' ') or 'of no known state'}")
    endpoint = _endpoint(cloud, key)
    if endpoint is None:
        yield _unseen(f"the algorithm of key {found.display_name}: its vault is not shown", "inspect vaults")
        return
    whole = cloud.at(endpoint).call("key_management", "KmsManagementClient", "get_key", key)
    if whole.key_shape.algorithm != SYMMETRIC:
        yield _unfit(
            f"{found.display_name} is a key for {whole.key_shape.algorithm}, and not for {SYMMETRIC}"
        )


def _region(ocid: str) -> str:
    """The region in an OCID, by its whole name: older ones have a code of three letters there."""
    from oci.regions import REGIONS_SHORT_NAMES

    named = ocid.split(".")[3]
    return str(REGIONS_SHORT_NAMES.get(named, named))


def _endpoint(cloud: OciCloud, key: str) -> str | None:
    """Where the key's vault is asked for its keys; key and vault have one part of their OCIDs in common."""
    mark = key.split(".")[4]
    for each in _searched(cloud, "query vault resources"):
        if mark in each.identifier.split("."):
            vault = cloud.call_or_none("key_management", "KmsVaultClient", "get_vault", each.identifier)
            return None if vault is None else str(vault.management_endpoint)
    return None


def _searched(cloud: OciCloud, query: str) -> list[Any]:
    from oci.resource_search import models

    details = models.StructuredSearchDetails(query=query)
    return cloud.listed("resource_search", "ResourceSearchClient", "search_resources", details)


def _unfit(text: str) -> Finding:
    return Finding("error", "key-unfit", f"oci.key: {text}", _OTHER)


def _unseen(text: str, right: str) -> Finding:
    return Finding("info", "not-looked-at", text, f"have a policy let you {right}; without it, up finds out")


def region_findings(cloud: OciCloud) -> Iterable[Finding]:
    """Whether the tenancy has the region: services elsewhere know no such tenant."""
    regions = cloud.listed("identity", "IdentityClient", "list_region_subscriptions", cloud.tenancy)
    ready = sorted(each.region_name for each in regions if each.status == "READY")
    if cloud.region not in ready:
        yield Finding(
            "error",
            "region-not-subscribed",
            f"the tenancy has not subscribed to region {cloud.region}",
            f"subscribe to it in the console, or write region: {' or '.join(ready)}",
        )


def compartment_findings(cloud: OciCloud, compartment: str) -> Iterable[Finding]:
    """Whether the compartment is alive."""
    found = cloud.call("identity", "IdentityClient", "get_compartment", compartment)
    if found.lifecycle_state != "ACTIVE":
        yield Finding(
            "error",
            "compartment-not-active",
            f"compartment {found.name} is {found.lifecycle_state.lower()}: nothing can be made in it",
            "restore it, or write the OCID of another one as oci.compartment",
        )


def availability_domain(cloud: OciCloud, layout: OciLayout) -> tuple[str | None, list[Finding]]:
    """The name of the grid's availability domain, or why there is none."""
    listed = cloud.listed("identity", "IdentityClient", "list_availability_domains", layout.oci.compartment)
    number = layout.oci.availability_domain
    if number <= len(listed):
        return str(listed[number - 1].name), []
    return None, [
        Finding(
            "error",
            "no-such-availability-domain",
            f"{cloud.region} has {len(listed)} availability domains, and the spec names number {number}",
            f"write oci.availability_domain: {len(listed)}, or another region",
        )
    ]


_REMEDY = "change the reservation, or name another one in oci.capacity_reservation"


def reservation_findings(
    cloud: OciCloud, layout: OciLayout, needed: StillNeeded, domain: str
) -> Iterator[Finding]:
    """All that is wrong with it; nothing where the spec names none. Raises OciCallError."""
    ocid, count = layout.oci.capacity_reservation, needed.reserved
    if ocid is None:
        return
    found = cloud.call_or_none(*COMPUTE, "get_compute_capacity_reservation", ocid)
    if found is None:
        yield Finding(
            "error",
            "reservation-unfit",
            f"these credentials see no capacity reservation {ocid} in {cloud.region}",
            "correct oci.capacity_reservation, or have a policy let you use it",
        )
        return
    wrong = []
    if found.lifecycle_state != "ACTIVE":
        wrong.append(f"is {found.lifecycle_state.lower()}")
    if found.availability_domain != domain:
        wrong.append(f"is in {found.availability_domain}, and the grid in {domain}")
    left = (found.reserved_instance_count or 0) - (found.used_instance_count or 0)
    if left < count:
        wrong.append(f"has room for {left} machines, and {count} nodes are to use it")
    for each in wrong:
        text = f"capacity reservation {found.display_name} {each}"
        yield Finding("error", "reservation-unfit", text, _REMEDY)


Answer = TypeVar("Answer")


def preflight(spec: GridSpec, layout: OciLayout, cloud: OciCloud) -> Preflight:
    """Look at what the making of a grid would fail of; nothing is made. Raises OciCallError.

    Credentials that OCI does not accept, and services that do not answer, are errors.
    """
    work = _Looks(spec, cloud, layout)
    work.look("the region", partial(region_findings, cloud))
    work.look("the compartment", partial(compartment_findings, cloud, layout.oci.compartment))
    unseen: tuple[str | None, list[Finding]] = (None, [])
    domain, found = work.query("availability domains", partial(availability_domain, cloud, layout), unseen)
    work.findings += found
    facts = {"tenancy": cloud.tenancy, "region": cloud.region, "compartment": layout.oci.compartment}
    if domain is not None:
        facts["availability domain"] = domain
        work.look_inside(domain)
    findings = sorted(work.findings, key=lambda each: GRAVEST_FIRST[each.level])
    return Preflight(spec.name, spec.provider, facts, tuple(work.figures), tuple(findings))


class _Looks:
    """Looks of one preflight, and what they found."""

    def __init__(self, spec: GridSpec, cloud: OciCloud, layout: OciLayout) -> None:
        self.spec, self.cloud, self.layout = spec, cloud, layout
        self.findings: list[Finding] = []
        self.figures: list[QuotaUse] = []

    def look(self, what: str, look: Callable[[], Iterable[Finding]]) -> None:
        """Keep what a look found, or that it was not looked at."""
        self.query(what, lambda: self.findings.extend(look()), None)

    def query(self, what: str, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
        """The answer; `otherwise`, with a notice, where access is denied. Raises OciCallError."""
        try:
            return ask()
        except OciCallError as error:
            if error.http_status not in NOT_ALLOWED:
                raise
            self.findings.append(not_looked_at(what, error))
            return otherwise

    def look_inside(self, domain: str) -> None:
        """Looks at what depends on the availability domain."""
        cloud, layout = self.cloud, self.layout
        sold: dict[str, Any] = {}
        needed = still_needed(layout, (), ())
        try:
            needed = self._needed()
            sold = sold_shapes(cloud, layout.oci.compartment, domain)
            self.findings += shape_findings(needed, sold, domain)
        except OciCallError as error:
            if error.http_status not in NOT_ALLOWED:
                raise
            self.findings.append(not_looked_at("shapes", error))
        self.look("images", partial(image_findings, cloud, layout, needed))
        self.look("the VCN and its subnets", partial(site_network_findings, cloud, layout, domain))
        self.look("the reservation", partial(reservation_findings, cloud, layout, needed, domain))
        self.look("free capacity", partial(capacity_findings, cloud, _known(needed, sold), domain))
        self.look("the key", partial(key_findings, cloud, layout.oci.key))
        needs = [(each, domain) for each in limit_needs(layout, needed, sold)]
        needs += self._made(domain)
        for need, where in needs:
            self.look(f"limit {need.name}", partial(self._count, need, where))
        if needs and not self.figures:
            text = "limits: OCI tells of none of them; it says the same where they may not be seen"
            remedy = (
                "have a policy let you inspect resource-availability; without it, up finds out as it goes"
            )
            self.findings.append(Finding("info", "not-looked-at", text, remedy))
        self.findings += too_small(self.figures, cloud.region)

    def _made(self, domain: str) -> list[tuple[LimitNeed, str]]:
        """What the roots make beside machines and volumes, against limits; what may not be listed is told."""
        domains = self.cloud.listed(
            "identity", "IdentityClient", "list_availability_domains", self.layout.oci.compartment
        )
        names = [str(each.name) for each in domains]
        found: list[tuple[LimitNeed, str]] = []
        for need in made_needs(self.spec, self.layout):
            if need.domain is not None and need.domain >= len(names):
                continue  # a domain that the region lacks is told elsewhere
            where = domain if need.domain is None else names[need.domain]
            for each in look_at_made(self.cloud, self.layout, need, names):
                if isinstance(each, Finding):
                    self.findings.append(each)
                else:
                    found.append((each, where))
        return found

    def _needed(self) -> StillNeeded:
        """Without what is there already: it counts as used. Raises OciCallError."""
        compartment = self.layout.oci.compartment
        machines = self.cloud.listed(*COMPUTE, "list_instances", compartment)
        volumes = self.cloud.listed("core", "BlockstorageClient", "list_volumes", compartment_id=compartment)
        return still_needed(self.layout, self._names(machines), self._names(volumes))

    def _names(self, found: Sequence[Any]) -> list[str]:
        return [each.display_name for each in found if is_there(each, self.layout.grid)]

    def _count(self, need: LimitNeed, domain: str) -> Iterable[Finding]:
        use = limit_use(self.cloud, self.layout.oci.compartment, domain, need)
        if use is not None:
            self.figures.append(use)
        return ()


def _known(needed: StillNeeded, sold: dict[str, Any]) -> StillNeeded:
    """Without shapes that are not sold there, which are told already."""
    kept = {each: number for each, number in needed.machines.items() if not sold or each.shape in sold}
    return replace(needed, machines=Counter(kept))


# `up --check`: what up would fail of in the tenancy, and on this machine.


def check(spec: GridSpec) -> Preflight:
    """All that is found; nothing is made. Raises GridwrightError where nothing can be looked at."""
    layout = checked_layout(spec)
    cloud = OciCloud(str(spec.region))
    found = preflight(spec, layout, cloud)
    findings = [*_deployer_findings(spec, cloud), *found.findings]
    return replace(found, findings=tuple(findings))


def _deployer_findings(spec: GridSpec, cloud: OciCloud) -> list[Finding]:
    """Whether what carries the roots out is here, and knows the grid where that is there."""
    try:
        deployer = deployer_of(spec, oci_section(spec), cloud, Caller())
        unknown = list(unknown_grid(spec, cloud, deployer))
    except OciCallError:
        raise
    except GridwrightError as error:
        return [Finding("error", "deployer-unfit", each.what, each.remedy or "") for each in error.problems]
    return [Finding("error", "state-elsewhere", each.what, each.remedy or "") for each in unknown]
