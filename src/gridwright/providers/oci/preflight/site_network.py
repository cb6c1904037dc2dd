"""Subnets of a VCN of the site's: whether they are there, in it, and of the ranges that the spec says."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.session import OciCloud

_CORE, _NETWORK = "core", "VirtualNetworkClient"


def site_network_findings(cloud: OciCloud, layout: OciLayout, domain: str) -> Iterator[Finding]:
    """All that is wrong with them; nothing where the grid makes its own network."""
    vcn = layout.oci.vcn
    if vcn is None:
        return
    if cloud.found(_CORE, _NETWORK, "get_vcn", vcn.id) is None:
        yield _missing("VCN", vcn.id, "oci.vcn.id")
        return
    for name, network in layout.subnets.items():
        ocid = getattr(vcn.subnets, name)
        field = f"oci.vcn.subnets.{name}"
        found = cloud.found(_CORE, _NETWORK, "get_subnet", ocid) if ocid else None
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
