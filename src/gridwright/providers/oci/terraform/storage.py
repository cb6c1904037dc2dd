"""The root `storage`: network, security groups and volumes, which outlive the grid's machines.

Block volumes: they outlive machines, and Terraform refuses to destroy them.

VCN, gateways, routes and subnets; or the site's own, which are named and not changed.

The default security list of a VCN lets ssh in from everywhere (OCI, security lists): it is emptied, so that
the network security groups alone decide.

File systems that Oracle runs: managed Lustre with its links, and File Storage with its mount targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.filesystems.provided import BucketLink, TieredLustre
from gridwright.providers.oci.layout import STORAGE, OciLayout, OciRole, file_storages, tags, tiered_lustres
from gridwright.providers.oci.resource_manager import Root, block_name, id_of
from gridwright.providers.oci.section import SERVICES
from gridwright.providers.oci.terraform.boot import add_bucket
from gridwright.providers.oci.terraform.machines import add_security_groups
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import NamespacedPlace

CLIENTS = ("fs", "public")
"""Subnets of machines that mount: nodes and the grid control server, and the bastion host."""
SOURCES = "sources"
"""The output that says what nodes mount, by file system; machines are told it at their start."""
DAYS = {
    "mon": "MONDAY",
    "tue": "TUESDAY",
    "wed": "WEDNESDAY",
    "thu": "THURSDAY",
    "fri": "FRIDAY",
    "sat": "SATURDAY",
    "sun": "SUNDAY",
}
"""As OCI's API writes the days of a maintenance window (oci SDK 2.189.0, lustre_file_storage models)."""
_LUSTRE, _LINK = "oci_lustre_file_storage_lustre_file_system", "oci_lustre_file_storage_object_storage_link"
_TARGET, _FILES, _EXPORT = (
    "oci_file_storage_mount_target",
    "oci_file_storage_file_system",
    "oci_file_storage_export",
)


def add_services(root: Root, spec: GridSpec, layout: OciLayout, domains: str) -> None:
    """Add all, and the output of what nodes mount; `domains` is the expression of availability domains."""
    subnet = id_of("oci_core_subnet", SERVICES) if layout.oci.vcn is None else layout.oci.vcn.subnets.services
    inside = {"compartment_id": layout.oci.compartment, "freeform_tags": tags(layout, STORAGE)}
    placed = {**inside, "subnet_id": subnet, "nsg_ids": [id_of("oci_core_network_security_group", SERVICES)]}
    sources: dict[str, str] = {}
    for name, lustre in tiered_lustres(spec).items():
        domain = _domain(domains, layout.oci.availability_domain)
        address = f"{_LUSTRE}.{block_name(name)}"
        root.keep(
            _LUSTRE,
            block_name(name),
            {
                **placed,
                "availability_domain": domain,
                "display_name": f"{layout.grid}-{name}",
                "file_system_name": lustre.name,
                "capacity_in_gbs": lustre.capacity_gb,
                "performance_tier": lustre.tier,
                "kms_key_id": layout.oci.key,
                "root_squash_configuration": [_root_squash(lustre, layout)],
                "maintenance_window": _window(lustre.maintenance),
            },
            why="Billed in cycles of 30 days: one that is removed earlier costs until its cycle ends.",
        )
        for called, arguments in _links(spec, name, lustre):
            root.resource(
                _LINK,
                block_name(called),
                {
                    **inside,
                    "availability_domain": domain,
                    "display_name": f"{layout.grid}-{called}",
                    "lustre_file_system_id": id_of(_LUSTRE, block_name(name)),
                    **arguments,
                },
                why="A trigger that grows starts one job; the same number starts none.",
            )
        host, net = (f"${{{address}.{part}}}" for part in ("management_service_address", "lnet"))
        sources[name] = f"{host}@{net}:/{lustre.name}"
    sources |= _file_storage(root, spec, layout, domains, inside, placed)
    if sources:
        root.output(SOURCES, sources, "What nodes mount, by file system.")


def _file_storage(
    root: Root,
    spec: GridSpec,
    layout: OciLayout,
    domains: str,
    inside: Mapping[str, Any],
    placed: Mapping[str, Any],
) -> dict[str, str]:
    """One mount target in each availability domain: a tenancy has two there before it asks for more."""
    sources = {}
    made: set[str] = set()
    for name, service in file_storages(spec).items():
        number = service.availability_domain or layout.oci.availability_domain
        target, domain = f"files{number}", _domain(domains, number)
        if target not in made:
            made.add(target)
            root.resource(
                _TARGET,
                target,
                {**placed, "availability_domain": domain, "display_name": f"{layout.grid} files"},
            )
        root.keep(
            _FILES,
            block_name(name),
            {
                **inside,
                "availability_domain": domain,
                "display_name": f"{layout.grid}-{name}",
                "kms_key_id": layout.oci.key,
            },
        )
        root.resource(
            _EXPORT,
            block_name(name),
            {
                "export_set_id": f"${{{_TARGET}.{target}.export_set_id}}",
                "file_system_id": id_of(_FILES, block_name(name)),
                "path": service.export_path,
                "export_options": [
                    _option(service.root_squash, str(layout.subnets[each])) for each in CLIENTS
                ],
            },
            why="Machines of the grid alone may mount it, from ports that only root has.",
        )
        sources[name] = f"${{{_TARGET}.{target}.ip_address}}:{service.export_path}"
    return sources


def _domain(domains: str, number: int) -> str:
    return f"${{{domains}[{number - 1}].name}}"


def _root_squash(lustre: TieredLustre, layout: OciLayout) -> dict[str, Any]:
    """Root of nodes becomes somebody else; that of grid control server and bastion host stays root."""
    if lustre.root_squash is None:
        return {"identity_squash": "NONE"}
    user, _, group = lustre.root_squash.partition(":")
    heads = [f"{each.serving_address}@tcp" for each in layout.of_role(OciRole.HEAD, OciRole.LOGIN)]
    return {
        "identity_squash": "ROOT",
        "squash_uid": user,
        "squash_gid": group,
        **({"client_exceptions": heads} if heads else {}),
    }


def _window(maintenance: str | None) -> list[dict[str, str]] | None:
    if maintenance is None:
        return None
    day, _, time = maintenance.partition(":")
    return [{"day_of_week": DAYS[day], "time_start": time}]


def _links(spec: GridSpec, name: str, lustre: TieredLustre) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each link is called, and its own arguments: those of the section, then those of repositories.

    No name of a spec has an underscore: no two links are called the same, whatever their file systems are.
    """
    for number, link in enumerate(lustre.links, start=1):
        yield f"{name}-link{number}", _link(link)
    for called, directory in spec.links_of(name).items():
        if called in spec.repositories:
            yield (
                f"{name}_{called}",
                {
                    "file_system_path": directory.directory,
                    "object_storage_prefix": NamespacedPlace.parse(directory.bucket).of_service,
                    "is_overwrite": directory.overwrite,
                },
            )


def _link(link: BucketLink) -> dict[str, Any]:
    return {
        "file_system_path": link.file_system_path,
        "object_storage_prefix": link.object_storage_prefix,
        "is_overwrite": link.overwrite,
        "start_import_from_object_trigger": link.imports or None,
        "start_export_to_object_trigger": link.exports or None,
    }


def _option(root_squash: str | None, clients: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": clients,
        "access": "READ_WRITE",
        "require_privileged_source_port": True,
        "identity_squash": "NONE",
    }
    if root_squash is not None:
        user, _, group = root_squash.partition(":")
        found |= {"identity_squash": "ROOT", "anonymous_uid": user, "anonymous_gid": group}
    return found


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


def add_volumes(root: Root, layout: OciLayout, domain: str) -> None:
    """Add all volumes, in the availability domain of their servers, and the output `volumes`: IDs by name."""
    for each in layout.volumes:
        servers = " and ".join(each.servers)
        root.keep(
            "oci_core_volume",
            block_name(each.name),
            {
                "compartment_id": layout.oci.compartment,
                "availability_domain": domain,
                "display_name": each.name,
                "size_in_gbs": str(each.gib),
                "vpus_per_gb": str(each.vpus_per_gib),
                "kms_key_id": layout.oci.key,
                "freeform_tags": tags(layout, STORAGE),
            },
            why=f"{each.device} of {servers}" + ("" if not each.is_shared else "; the first one serves it"),
        )
    if layout.volumes:
        ids = {each.name: id_of("oci_core_volume", block_name(each.name)) for each in layout.volumes}
        root.output("volumes", ids, "Block volumes by name.")


def storage_root(spec: GridSpec, layout: OciLayout) -> Root:
    """The root, of which grid takes each output as a variable of the same name."""
    root = Root(str(spec.region), f"Storage and network of grid {spec.name}: it outlives the machines.")
    domains = root.source(
        "oci_identity_availability_domains", "all", {"compartment_id": layout.oci.compartment}
    )
    number = layout.oci.availability_domain - 1
    domain = f"${{{domains}.availability_domains[{number}].name}}"
    vcn = add_network(root, layout)
    add_security_groups(root, spec, layout, vcn)
    add_volumes(root, layout, domain)
    add_services(root, spec, layout, f"{domains}.availability_domains")
    add_bucket(root, layout)
    root.output("availability_domain", domain, "Where volumes and machines are.")
    return root
