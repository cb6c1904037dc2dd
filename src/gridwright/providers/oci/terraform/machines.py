"""Machines, their second network cards, and the volumes that servers attach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridwright.filesystems.lustre_client.fields import LNET
from gridwright.providers.boot.bundle import Bundle, Part
from gridwright.providers.file_servers import built_lustres, shared_disk_file_systems
from gridwright.providers.oci.layout import (
    BOOT_VOLUME_GB,
    GRID,
    PLATFORM_IMAGES,
    STORAGE,
    OciLayout,
    OciMachine,
    OciRole,
    file_storages,
    services,
    tags,
    tiered_lustres,
)
from gridwright.providers.oci.resource_manager import Root, block_name, id_of
from gridwright.providers.oci.section import LONGEST_SESSION_S
from gridwright.providers.oci.terraform.boot import (
    SECRETS,
    add_bundles,
    add_requests,
    add_rights,
    expression,
    instance_metadata,
    instance_secrets,
)
from gridwright.schedulers import scheduler_kind as kind_of_scheduler
from gridwright.schedulers.machines import GridPart
from gridwright.services.ports import EPHEMERAL, Ports
from gridwright.spec.model import GridSpec

# Network security groups by role, with the ports that are needed and no more.
#
# Inwards, a rule names the group that may come and one range of ports; the only rule with a range of
# addresses from outside is ssh to the bastion, from those of `oci.ssh_from`. Outwards, a machine may reach
# what is within the network, where the rules of the other side decide, the web for packages, and Oracle's
# services.

SSH = Ports("Ssh", 22, 22)
ISCSI = Ports("Iscsi", 3260, 3260)
"""What volumes are attached over (RFC 7143)."""
ISCSI_TARGETS = "169.254.0.0/16"
"""Addresses of attached volumes (OCI, iSCSI commands and information)."""
PROTOCOLS = {"tcp": "6", "udp": "17"}
"""By their numbers (IANA), as OCI names them."""
BASTION, HEAD, NODES, SERVERS, SERVICES = "bastion", "head", "nodes", "servers", "services"
GROUPS = (BASTION, HEAD, NODES, SERVERS, SERVICES)
NFS = (
    Ports("NfsPortmap", 111, 111),
    Ports("Nfs", 2048, 2050),
    Ports("NfsPortmapUdp", 111, 111, "udp"),
    Ports("NfsMountUdp", 2048, 2048, "udp"),
)
"""Of a mount target (OCI, File Storage, security rules)."""
_EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True)
class NetworkRuleIn:
    """One rule inwards."""

    group: str
    source: str
    """A group, or a range of addresses."""
    ports: Ports
    why: str

    @property
    def name(self) -> str:
        """Made of what cannot change without another rule."""
        source = self.source.replace(".", "-").replace("/", "-")
        return f"{self.group}-from-{source}-{self.ports.name.lower()}"


def group_of(role: OciRole) -> str:
    """The group of machines of a role."""
    if role.is_server:
        return SERVERS
    return {OciRole.LOGIN: BASTION, OciRole.HEAD: HEAD}.get(role, NODES)


def add_security_groups(root: Root, spec: GridSpec, layout: OciLayout, vcn: str) -> None:
    """Add groups and rules, and outputs `…_group` with the groups' IDs."""
    for name in GROUPS if services(spec) else GROUPS[:-1]:
        root.resource(
            "oci_core_network_security_group",
            name,
            {
                "compartment_id": layout.oci.compartment,
                "vcn_id": vcn,
                "display_name": f"{layout.grid} {name}",
                "freeform_tags": tags(layout, STORAGE),
            },
        )
        root.output(f"{name}_group", id_of("oci_core_network_security_group", name), f"Group of {name}.")
        for number, (destination, ports, why) in enumerate(_outwards(spec, layout, name), start=1):
            _rule(root, f"{name}-out-{number}", name, "EGRESS", destination, ports, why)
    # The same ports may be asked for twice, as ssh by administrators and by commands of a file system.
    once = {
        (each.group, each.source, each.ports.protocol, each.ports.first, each.ports.last): each
        for each in rules(spec, layout)
    }
    for rule in once.values():
        _rule(root, rule.name, rule.group, "INGRESS", rule.source, rule.ports, rule.why)


def _rule(
    root: Root, name: str, group: str, direction: str, other: str, ports: Ports | None, why: str
) -> None:
    side = "source" if direction == "INGRESS" else "destination"
    is_group = other in GROUPS
    arguments: dict[str, object] = {
        "network_security_group_id": id_of("oci_core_network_security_group", group),
        "direction": direction,
        "protocol": PROTOCOLS[ports.protocol] if ports else "all",
        side: id_of("oci_core_network_security_group", other) if is_group else other,
        f"{side}_type": "NETWORK_SECURITY_GROUP" if is_group else "CIDR_BLOCK",
        "description": why,
    }
    if ports:
        desired = {"destination_port_range": [{"min": ports.first, "max": ports.last}]}
        arguments[f"{ports.protocol}_options"] = [desired]
    root.resource("oci_core_network_security_group_security_rule", name, arguments)


def rules(spec: GridSpec, layout: OciLayout) -> Iterator[NetworkRuleIn]:
    """All rules inwards."""
    for each in dict.fromkeys(layout.oci.ssh_from):
        yield NetworkRuleIn(BASTION, each, SSH, "ssh of users to the bastion")
    if layout.oci.bastion == "service":
        # Sessions of the service come from an address of its own in the subnet that it is in.
        for group in (HEAD, NODES, SERVERS):
            yield NetworkRuleIn(group, str(layout.subnets["fs"]), SSH, "ssh through the bastion service")
    for group in (HEAD, NODES, SERVERS):
        yield NetworkRuleIn(group, BASTION, SSH, "ssh from the bastion")
    for group in (NODES, SERVERS):
        yield NetworkRuleIn(group, HEAD, SSH, "ssh from the grid control server: setup, doctor and tests")
    yield NetworkRuleIn(HEAD, NODES, EPHEMERAL, "answers to commands that work across nodes")
    parts = {GridPart.LOGIN: BASTION, GridPart.HEAD: HEAD, GridPart.COMPUTE: NODES}
    for rule in kind_of_scheduler(spec.scheduler).network_rules(spec):
        yield NetworkRuleIn(parts[rule.target], parts[rule.source], rule.ports, rule.why)
    yield from _shared_disks(spec)
    yield from _services(spec, layout)
    if built_lustres(spec):
        for ports in LNET:
            yield NetworkRuleIn(SERVERS, SERVERS, ports, "Lustre servers among themselves")
            # The bastion host is a login machine, and mounts what nodes mount.
            for client in (NODES, HEAD, BASTION) if layout.oci.bastion == "host" else (NODES, HEAD):
                yield NetworkRuleIn(SERVERS, client, ports, "Lustre clients to servers")
                yield NetworkRuleIn(
                    client, SERVERS, ports, "Lustre servers to clients: locks are called back"
                )


def _shared_disks(spec: GridSpec) -> Iterator[NetworkRuleIn]:
    """Every node of the cluster reaches every other one: servers, nodes and the grid control server."""
    ports = dict.fromkeys(each for one in shared_disk_file_systems(spec).values() for each in one.ports)
    members = (SERVERS, NODES, HEAD)
    for each in ports:
        for group in members:
            for source in members:
                yield NetworkRuleIn(group, source, each, "nodes of a cluster among themselves")


def _services(spec: GridSpec, layout: OciLayout) -> Iterator[NetworkRuleIn]:
    """What OCI runs itself: its managed Lustre, and File Storage."""
    # The bastion host is a login machine, and mounts what nodes mount.
    clients = (NODES, HEAD, BASTION) if layout.oci.bastion == "host" else (NODES, HEAD)
    if tiered_lustres(spec):
        for ports in LNET:
            yield NetworkRuleIn(SERVICES, SERVICES, ports, "servers of the managed Lustre among themselves")
            for client in clients:
                yield NetworkRuleIn(SERVICES, client, ports, "clients to the managed Lustre")
                yield NetworkRuleIn(client, SERVICES, ports, "the managed Lustre calls locks back")
    if file_storages(spec):
        for ports in NFS:
            for client in clients:
                yield NetworkRuleIn(SERVICES, client, ports, "clients to exports of File Storage")


def _outwards(spec: GridSpec, layout: OciLayout, group: str) -> Iterator[tuple[str, Ports | None, str]]:
    yield str(_network(layout)), None, "within the network, as others let in"
    yield _EVERYWHERE, Ports("Https", 443, 443), "interfaces of OCI and package repositories"
    yield _EVERYWHERE, Ports("Http", 80, 80), "package repositories"
    if group == SERVERS:
        yield ISCSI_TARGETS, ISCSI, "block volumes by iSCSI"


def _network(layout: OciLayout) -> str:
    return layout.oci.network if layout.oci.vcn is None else layout.oci.vcn.network


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


# The root `grid`: machines and what they are allowed, on the network and volumes of the root `storage`.


def grid_root(spec: GridSpec, layout: OciLayout, storage: Root, bundles: Mapping[Part, Bundle]) -> Root:
    """The root; its variables are the outputs of `storage`, and the tenancy."""
    root = Root(str(spec.region), f"Machines of grid {spec.name}: they can be made anew, storage stays.")
    for name, output in storage.outputs.items():
        kind = "map(string)" if isinstance(output["value"], dict) else "string"
        root.variable(name, f"Output of the root storage. {output['description']}", kind)
    add_machines(root, spec, layout)
    add_bundles(root, bundles)
    add_rights(root, layout)
    if layout.oci.bastion == "service":
        root.resource(
            "oci_bastion_bastion",
            "grid",
            {
                "compartment_id": layout.oci.compartment,
                "bastion_type": "STANDARD",
                "target_subnet_id": "${var.fs_subnet}",
                "client_cidr_block_allow_list": layout.oci.ssh_from,
                "max_session_ttl_in_seconds": LONGEST_SESSION_S,
                "name": f"gridwright{''.join(each for each in layout.grid if each.isalnum())}",
                "freeform_tags": tags(layout, GRID),
            },
        )
        root.output("bastion", id_of("oci_bastion_bastion", "grid"), "The bastion that sessions are made of.")
    return root
