"""Whether region, compartment and availability domain are there."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.errors import Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.session import OciCloud


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
