"""VCN, gateways, routes and subnets; or the site's own, which are named and not changed.

The default security list of a VCN lets ssh in from everywhere (OCI, security lists): it is emptied, so that
the network security groups alone decide.
"""

from __future__ import annotations

from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import STORAGE, tags
from gridwright.providers.oci.section import SERVICES
from gridwright.providers.oci.terraform.root import Root, id_of

_VCN = "${oci_core_vcn.grid.id}"
_ALL = "0.0.0.0/0"


def add_network(root: Root, layout: OciLayout) -> str:
    """Add the network; gives the expression of the VCN's ID. Outputs name its subnets."""
    oci = layout.oci
    if oci.vcn is not None:
        for name in layout.subnets:
            root.output(f"{name}_subnet", getattr(oci.vcn.subnets, name), f"Subnet {name}, the site's own.")
        return oci.vcn.id
    common = {"compartment_id": oci.compartment, "freeform_tags": tags(layout, STORAGE)}
    inside: dict[str, object] = {**common, "vcn_id": _VCN}
    root.resource(
        "oci_core_vcn",
        "grid",
        {
            **common,
            "cidr_blocks": [oci.network],
            "display_name": layout.grid,
            "dns_label": dns_label(layout.grid),
        },
    )
    root.resource(
        "oci_core_default_security_list",
        "none",
        {
            "compartment_id": oci.compartment,
            "manage_default_resource_id": "${oci_core_vcn.grid.default_security_list_id}",
            "display_name": "no rules",
        },
        why="By default it lets ssh in from everywhere. Network security groups alone decide here.",
    )
    _add_gateways(root, layout, inside)
    _add_subnets(root, layout, inside)
    return _VCN


def _add_gateways(root: Root, layout: OciLayout, inside: dict[str, object]) -> None:
    root.source("oci_core_services", "all", {})
    every = 'for each in data.oci_core_services.all.services : each if startswith(each.cidr_block, "all-")'
    services = f"${{one([{every}]).%s}}"
    root.resource("oci_core_internet_gateway", "grid", {**inside, "display_name": f"{layout.grid} internet"})
    root.resource("oci_core_nat_gateway", "grid", {**inside, "display_name": f"{layout.grid} nat"})
    root.resource(
        "oci_core_service_gateway",
        "grid",
        {**inside, "display_name": f"{layout.grid} services", "services": [{"service_id": services % "id"}]},
        why="Object Storage and the package mirrors of Oracle are reached without the Internet.",
    )
    root.resource(
        "oci_core_route_table",
        "public",
        {
            **inside,
            "display_name": f"{layout.grid} public",
            "route_rules": [_rule(_ALL, id_of("oci_core_internet_gateway", "grid"))],
        },
    )
    root.resource(
        "oci_core_route_table",
        "private",
        {
            **inside,
            "display_name": f"{layout.grid} private",
            "route_rules": [
                _rule(_ALL, id_of("oci_core_nat_gateway", "grid")),
                _rule(
                    services % "cidr_block", id_of("oci_core_service_gateway", "grid"), "SERVICE_CIDR_BLOCK"
                ),
            ],
        },
    )


def _add_subnets(root: Root, layout: OciLayout, inside: dict[str, object]) -> None:
    for name in layout.subnets:
        public = name == "public"
        root.resource(
            "oci_core_subnet",
            name,
            {
                **inside,
                "cidr_block": str(layout.subnets[name]),
                "display_name": f"{layout.grid} {name}",
                "dns_label": name,
                "prohibit_public_ip_on_vnic": not public,
                "prohibit_internet_ingress": not public,
                "route_table_id": id_of("oci_core_route_table", "public" if public else "private"),
                "security_list_ids": ["${oci_core_vcn.grid.default_security_list_id}"],
            },
            why=_WHY[name],
        )
        root.output(f"{name}_subnet", id_of("oci_core_subnet", name), f"Subnet {name}.")


_WHY = {
    "public": "The bastion's: the only subnet that the Internet reaches.",
    "fs": "Nodes, the grid control server, and the card of servers that clients reach.",
    "storage": "The card of servers that reaches block volumes by iSCSI.",
    SERVICES: "File systems that Oracle runs: their addresses are Oracle's choice, so no machine is in it.",
}


def _rule(destination: str, gateway: str, kind: str = "CIDR_BLOCK") -> dict[str, str]:
    return {"destination": destination, "destination_type": kind, "network_entity_id": gateway}


def dns_label(name: str) -> str:
    """A label of DNS in a VCN: letters and digits, at most 15, a letter first (OCI, DNS in a VCN)."""
    return "".join(each for each in name if each.isalnum())[:15]
