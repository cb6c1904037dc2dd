"""Network security groups by role, with the ports that are needed and no more.

Inwards, a rule names the group that may come and one range of ports; the only rule with a range of addresses
from outside is ssh to the bastion, from those of `oci.ssh_from`. Outwards, a machine may reach what is within
the network, where the rules of the other side decide, the web for packages, and Oracle's services.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.filesystems.ports import LNET
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.oci.layout import OciLayout, OciRole
from gridwright.providers.oci.names import STORAGE, tags
from gridwright.providers.oci.service_subnet import file_storages, services, tiered_lustres
from gridwright.providers.oci.terraform.root import Root, id_of
from gridwright.providers.shared_disks import shared_disk_file_systems
from gridwright.schedulers import kind_of as kind_of_scheduler
from gridwright.schedulers.network import GridPart
from gridwright.services.ports import EPHEMERAL, Ports
from gridwright.spec.model import GridSpec

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
