"""Machines, their second network cards, and the volumes that servers attach."""

from __future__ import annotations

from gridwright.providers.oci.costs import BOOT_VOLUME_GB
from gridwright.providers.oci.layout import OciLayout, OciMachine, OciRole
from gridwright.providers.oci.names import GRID, tags
from gridwright.providers.oci.platform_images import PLATFORM_IMAGES
from gridwright.providers.oci.terraform.boot import SECRETS, add_requests, instance_metadata, instance_secrets
from gridwright.providers.oci.terraform.root import Root, block_name, id_of
from gridwright.providers.oci.terraform.security_groups import group_of
from gridwright.providers.oci.user_data import expression
from gridwright.spec.model import GridSpec

LEAST_VPUS_OF_PATHS = 30
"""For each GB: volumes of ultra high performance, which are attached by several paths, have so many or more
(OCI, block volume performance levels)."""
VOLUME_PLUGIN = "Block Volume Management"
"""The agent's plugin that logs in to these (OCI, attachments to ultra high performance volumes)."""
_INSTANCE = "oci_core_instance"


def add_machines(root: Root, spec: GridSpec, layout: OciLayout) -> None:
    """Add all machines, with outputs `addresses`, `instances` and `login`."""
    images = _images(root, layout)
    placement = _placement(root, layout)
    for each in layout.machines:
        add_requests(root, layout, each)
        arguments = _instance(spec, layout, each, images.get(each.shape), placement)
        root.resource(_INSTANCE, block_name(each.name), arguments)
        if each.second_address is not None:
            _second_card(root, layout, each)
        _attach(root, layout, each)
    addresses = {each.name: str(each.serving_address) for each in layout.machines}
    root.output("addresses", addresses, "What machines reach each other at.")
    instances = {each.name: id_of(_INSTANCE, block_name(each.name)) for each in layout.machines}
    root.output("instances", instances, "OCIDs of machines by name.")
    for login in layout.of_role(OciRole.LOGIN):
        root.output("login", f"${{{_INSTANCE}.{block_name(login.name)}.public_ip}}", "Where users log in.")


def _images(root: Root, layout: OciLayout) -> dict[str, str]:
    """The OCID of the newest image of the distribution that each shape starts, where the site names none.

    Images of Arm and x86 have one name and version in OCI's list, so that only the shape tells them apart.
    """
    unnamed = [each for each in layout.machines if named_image(layout, each) is None]
    shapes = dict.fromkeys(each.shape for each in unnamed)
    if not shapes:
        return {}
    system, version = PLATFORM_IMAGES[layout.oci.distribution]
    return {shape: _newest(root, layout, system, version, shape) for shape in shapes}


def named_image(layout: OciLayout, machine: OciMachine) -> str | None:
    """The site's image of a machine; None where it starts from a platform image."""
    if machine.role.is_server and layout.oci.server_image is not None:
        return layout.oci.server_image
    return layout.oci.image


def _newest(root: Root, layout: OciLayout, system: str, version: str, shape: str) -> str:
    address = root.source(
        "oci_core_images",
        shape.lower().replace(".", "-"),
        {
            "compartment_id": layout.oci.compartment,
            "operating_system": system,
            "operating_system_version": version,
            "shape": shape,
            "sort_by": "TIMECREATED",
            "sort_order": "DESC",
            "state": "AVAILABLE",
        },
    )
    return f"${{{address}.images[0].id}}"


def _placement(root: Root, layout: OciLayout) -> str | None:
    if not layout.oci.cluster_placement:
        return None
    return root.resource(
        "oci_cluster_placement_groups_cluster_placement_group",
        "nodes",
        {
            "compartment_id": layout.oci.compartment,
            "availability_domain": "${var.availability_domain}",
            "cluster_placement_group_type": "STANDARD",
            "name": f"{layout.grid}-nodes",
            "description": f"Nodes of grid {layout.grid}, close together",
            "freeform_tags": tags(layout, GRID),
        },
    )


def _instance(
    spec: GridSpec, layout: OciLayout, machine: OciMachine, image: str | None, placement: str | None
) -> dict[str, object]:
    is_node = machine.role is OciRole.COMPUTE
    is_reserved = is_node and layout.oci.capacity_reservation is not None
    named = named_image(layout, machine)
    arguments: dict[str, object] = {
        "compartment_id": layout.oci.compartment,
        "availability_domain": "${var.availability_domain}",
        # Capacity that was reserved in no fault domain is for instances that name none, and OCI chooses one
        # for them (oci SDK 2.189.0, InstanceReservationConfigDetails.fault_domain).
        "fault_domain": None if is_reserved else f"FAULT-DOMAIN-{machine.fault_domain}",
        "display_name": machine.name,
        "shape": machine.shape,
        "source_details": [
            {
                "source_type": "image",
                "source_id": named or image,
                "boot_volume_size_in_gbs": str(BOOT_VOLUME_GB),
                **({} if layout.oci.key is None else {"kms_key_id": layout.oci.key}),
            }
        ],
        "create_vnic_details": [
            {
                "subnet_id": f"${{var.{machine.subnet}_subnet}}",
                "private_ip": str(machine.address),
                "hostname_label": machine.name,
                "assign_public_ip": str(machine.role is OciRole.LOGIN).lower(),
                "nsg_ids": [f"${{var.{group_of(machine.role)}_group}}"],
                "display_name": machine.name,
            }
        ],
        "metadata": {
            "ssh_authorized_keys": layout.oci.ssh_key,
            "user_data": expression(spec, machine),
            "gridwright": instance_metadata(spec),
            SECRETS: instance_secrets(machine),
        },
        "instance_options": [{"are_legacy_imds_endpoints_disabled": True}],
        "agent_config": [_agent(layout, machine)],
        "is_pv_encryption_in_transit_enabled": None if machine.shape.startswith("BM.") else True,
        "preserve_boot_volume": False,
        "freeform_tags": tags(layout, GRID) | {"gridwright-role": str(machine.role)},
        # A newer image of the same name makes no machine anew by itself.
        "lifecycle": {"ignore_changes": ["source_details[0].source_id"]} if named is None else None,
        "capacity_reservation_id": layout.oci.capacity_reservation if is_reserved else None,
        "cluster_placement_group_id": placement if is_node else None,
    }
    if machine.ocpus is not None:
        arguments["shape_config"] = [{"ocpus": machine.ocpus, "memory_in_gbs": machine.memory_gib}]
    return arguments


def _agent(layout: OciLayout, machine: OciMachine) -> dict[str, object]:
    """Oracle's agent: it reports, and manages nothing but volumes with several paths, to which it logs in."""
    has_paths = any(each.vpus_per_gib >= LEAST_VPUS_OF_PATHS for each in layout.volumes_of(machine.name))
    agent: dict[str, object] = {"is_monitoring_disabled": False, "is_management_disabled": not has_paths}
    if has_paths:
        agent["plugins_config"] = [{"name": VOLUME_PLUGIN, "desired_state": "ENABLED"}]
    return agent


def _second_card(root: Root, layout: OciLayout, machine: OciMachine) -> None:
    root.resource(
        "oci_core_vnic_attachment",
        block_name(machine.name),
        {
            "instance_id": id_of(_INSTANCE, block_name(machine.name)),
            "display_name": f"{machine.name} fs",
            "nic_index": 1,
            "create_vnic_details": [
                {
                    "subnet_id": "${var.fs_subnet}",
                    "private_ip": str(machine.second_address),
                    "hostname_label": machine.name,
                    "assign_public_ip": "false",
                    "nsg_ids": [f"${{var.{group_of(machine.role)}_group}}"],
                    "display_name": f"{machine.name} fs",
                }
            ],
        },
        why="The second card: what clients reach, apart from the way to block volumes.",
    )


def _attach(root: Root, layout: OciLayout, machine: OciMachine) -> None:
    for volume in layout.volumes_of(machine.name):
        root.resource(
            "oci_core_volume_attachment",
            block_name(f"{machine.name}-{volume.name.removeprefix(layout.grid + '-')}"),
            {
                "attachment_type": "iscsi",
                "instance_id": id_of(_INSTANCE, block_name(machine.name)),
                "volume_id": f'${{var.volumes["{volume.name}"]}}',
                "device": volume.device,
                "display_name": volume.name,
                "is_shareable": volume.is_shared,
                "is_read_only": False,
                "use_chap": False,
            },
        )
