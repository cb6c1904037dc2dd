"""File systems that OCI runs: they outlive machines, and Terraform refuses to destroy them."""

from __future__ import annotations

from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import STORAGE, tags
from gridwright.providers.oci.services import file_storages, mount_target_address, tiered_lustres
from gridwright.providers.oci.terraform.root import Root, block_name, id_of
from gridwright.spec.model import GridSpec

_LUSTRE = "oci_lustre_file_storage_lustre_file_system"
_LINK = "oci_lustre_file_storage_object_storage_link"
_DAYS = {"sun": "SUNDAY", "mon": "MONDAY", "tue": "TUESDAY", "wed": "WEDNESDAY", "thu": "THURSDAY"} | {
    "fri": "FRIDAY",
    "sat": "SATURDAY",
}


def add_services(root: Root, spec: GridSpec, layout: OciLayout, domain: str, subnet: str) -> None:
    """Add them, in subnet fs, and the output `sources`: what machines mount of each managed Lustre."""
    group = id_of("oci_core_network_security_group", "services")
    common: dict[str, object] = {
        "compartment_id": layout.oci.compartment,
        "availability_domain": domain,
        "freeform_tags": tags(layout, STORAGE),
    }
    sources = {}
    for name, lustre in tiered_lustres(spec).items():
        block = block_name(name)
        squash: dict[str, object] = {"identity_squash": "NONE"}
        if lustre.root_squash is not None:
            uid, _, gid = lustre.root_squash.partition(":")
            squash = {"identity_squash": "ROOT", "squash_uid": uid, "squash_gid": gid}
        root.keep(
            _LUSTRE,
            block,
            {
                **common,
                "display_name": f"{layout.grid} {name}",
                "file_system_name": lustre.name,
                "capacity_in_gbs": lustre.capacity_gb,
                "performance_tier": lustre.tier,
                "subnet_id": subnet,
                "nsg_ids": [group],
                "kms_key_id": layout.oci.key,
                "root_squash_configuration": [squash],
                "maintenance_window": _window(lustre.maintenance),
            },
        )
        at = f"${{{_LUSTRE}.{block}.management_service_address}}@${{{_LUSTRE}.{block}.lnet}}"
        sources[name] = f"{at}:/{lustre.name}"
        for number, link in enumerate(lustre.links, start=1):
            root.resource(
                _LINK,
                f"{block}-{number}",
                {
                    **common,
                    "lustre_file_system_id": id_of(_LUSTRE, block),
                    "file_system_path": link.file_system_path,
                    "object_storage_prefix": link.object_storage_prefix,
                    "is_overwrite": link.overwrite,
                    "start_import_from_object_trigger": link.imports or None,
                    "start_export_to_object_trigger": link.exports or None,
                },
                why="A larger number of a trigger starts a job; deletions are not mirrored.",
            )
    if sources:
        root.output("sources", sources, "What nodes mount of file systems that OCI gives an address.")
    _add_file_storage(root, spec, layout, common, subnet, group)


def _window(maintenance: str | None) -> list[dict[str, str]] | None:
    if maintenance is None:
        return None
    day, _, time = maintenance.partition(":")
    return [{"day_of_week": _DAYS[day], "time_start": time}]


def _add_file_storage(
    root: Root, spec: GridSpec, layout: OciLayout, common: dict[str, object], subnet: str, group: str
) -> None:
    """Each file system with its export, and one mount target for all."""
    found = file_storages(spec)
    if not found:
        return
    root.resource(
        "oci_file_storage_mount_target",
        "grid",
        {
            **common,
            "display_name": f"{layout.grid} exports",
            "subnet_id": subnet,
            "ip_address": str(mount_target_address(layout)),
            "nsg_ids": [group],
        },
    )
    for name, each in found.items():
        block = block_name(name)
        root.keep(
            "oci_file_storage_file_system",
            block,
            {**common, "display_name": f"{layout.grid} {name}", "kms_key_id": layout.oci.key},
        )
        options: dict[str, object] = {
            "source": str(layout.subnets["fs"]),
            "access": "READ_WRITE",
            "identity_squash": "NONE",
            "require_privileged_source_port": True,
        }
        if each.root_squash is not None:
            uid, _, gid = each.root_squash.partition(":")
            options |= {"identity_squash": "ROOT", "anonymous_uid": uid, "anonymous_gid": gid}
        root.resource(
            "oci_file_storage_export",
            block,
            {
                "export_set_id": "${oci_file_storage_mount_target.grid.export_set_id}",
                "file_system_id": id_of("oci_file_storage_file_system", block),
                "path": each.export_path,
                "export_options": [options],
            },
            why="Nodes alone mount it, from ports that only root has.",
        )
