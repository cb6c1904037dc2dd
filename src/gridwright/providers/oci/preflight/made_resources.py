"""What both roots make beside machines and volumes: limits of it, and whether it may be looked at at all.

OCI tells nobody what they may do. Verbs of a policy include each other, though (inspect, read, use, manage):
who may not even list resources of a kind may make none, unless a policy lets them make what it hides.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.emptying import namespace
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import is_there
from gridwright.providers.oci.preflight.limits import LimitNeed
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.oci.terraform.storage import storage_root
from gridwright.spec.model import GridSpec

NOT_ALLOWED = (403, 404)
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
