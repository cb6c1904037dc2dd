"""Everything that `render` writes for a grid on OCI: two Terraform roots, and the playbook of machines.

Plain `terraform` or `tofu` deploys the roots; nothing of Gridwright is needed for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.model.grid import check_against_catalogue, grid_model, library_layouts
from gridwright.node_programs.one_file import NodeProgram
from gridwright.providers.boot.bundle import NODES, SERVERS, MachineFiles, Part, boot_files
from gridwright.providers.cloud import cost_document, problems_of
from gridwright.providers.file_servers import (
    SERVER_ROLE,
    ClusterParts,
    cluster_documents,
    mount_sources,
    playbook_clusters,
    root_squash_rows,
    shared_disk_file_systems,
)
from gridwright.providers.machines import machines_of_types
from gridwright.providers.oci.layout import (
    GRID,
    STORAGE,
    OciLayout,
    OciMachine,
    OciRole,
    oci_layout,
    services,
    tiered_lustres,
)
from gridwright.providers.oci.resource_manager import LOCK_FILE, lock_text
from gridwright.providers.oci.terraform.boot import bundle_file, user_data_files
from gridwright.providers.oci.terraform.machines import grid_root
from gridwright.providers.oci.terraform.storage import storage_root
from gridwright.providers.rendering import markdown
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import USABLE_PART
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.playbook import Hosts, Provided, playbook_files, tree
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

_BOOT = "gridwright.providers.oci.boot"
CARDS = NodeProgram("gridwright.providers.oci.cards", "the look for network cards", (_BOOT,))
VOLUMES = NodeProgram("gridwright.providers.oci.volumes", "the look for volumes", (_BOOT,))
TARGETS = NodeProgram(
    "gridwright.providers.oci.targets",
    "the targets of this server",
    ("gridwright.node_programs.scratch", "gridwright.node_programs.lustre_targets", _BOOT),
)


def cluster_parts(spec: GridSpec, layout: OciLayout) -> dict[str, ClusterParts]:
    """Machines and disks of each file system that is a cluster, by the file system's name."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    found = {}
    for name in shared_disk_file_systems(spec):
        # Its servers first, then nodes that mount it: those that run jobs, and the grid control server.
        members = [*layout.servers_of(name), *layout.of_role(OciRole.HEAD, OciRole.COMPUTE)]
        disks = [
            PairDisk(
                volume=one.name,
                device=one.device,
                pair=one.pair,
                index=one.index,
                pool=one.pool,
                label=f"p{one.pair}_{one.pool}_v{one.index + 1:02d}" if one.pool else "",
            )
            for one in layout.volumes
            if one.filesystem == name and one.is_shared
        ]
        found[name] = ClusterParts([_machine(spec, one, catalog) for one in members], disks)
    return found


def _machine(spec: GridSpec, machine: OciMachine, catalog: Catalog) -> ClusterMachine:
    shape = machine.shape if machine.ocpus is None else f"{machine.shape}({machine.ocpus})"
    instance = catalog.instance(shape, spec.provider)
    cards = 2 if machine.second_address is not None else 1
    return ClusterMachine(
        name=machine.name,
        address=str(machine.serving_address),
        is_server=machine.role.is_server,
        pair=machine.pair,
        fault_domain=machine.fault_domain,
        memory_bytes=int(instance.memory_bytes * USABLE_PART),
        # Clients reach a server of two cards over one of them; the other one has the block volumes.
        nic_bytes_per_s=instance.network.baseline_bytes_per_s / cards,
    )


_PACKAGE = "gridwright.providers.oci"
_PROGRAMS = ("set_up.py", "system_packages.py", "cloud.py", "object_store.py", "instance_principal.py")
_VOLUMES = PlaybookRole(
    name="shared_volumes",
    task="Attach volumes",
    when="gridwright_volumes[inventory_hostname] | default([]) | length > 0",
    package=_PACKAGE,
)
_CARD = PlaybookRole(
    name="second_card",
    task="Set the second network card up",
    when="gridwright_second_cards[inventory_hostname] is defined",
    package=_PACKAGE,
)
_TARGETS = "lustre_targets"
_OF_SERVERS = (
    "gridwright_lustre_targets",
    *(f"lustre_server_{each}" for each in ("image_field", "targets_role", "targets_unit", "silent")),
    "lustre_server_root_squash",
)
"""Variables that nodes have no use for."""
_FIREWALL = PlaybookRole(
    name="platform_firewall", task="Let the grid through the image's filter", when="true", package=_PACKAGE
)


def oci_machine_files(spec: GridSpec, layout: OciLayout, release: str | None) -> MachineFiles:
    """Make them; the same arguments give the same bytes. Raises GridwrightError (INPUT)."""
    scheduler = scheduler_kind(spec.scheduler).setup(spec, lambda: machines_of_types(spec), release)
    hosts = oci_hosts(spec, layout)
    known, boot = _provided(spec, layout), boot_files("oci", _PROGRAMS, {}, on_oci=True)
    playbook = playbook_files(spec, hosts, scheduler, known)
    # What only servers run is not in the bundle of nodes.
    less: dict[str, object] = dict.fromkeys(("gridwright_volumes", "gridwright_second_cards", *_OF_SERVERS))
    without = replace(known, roles=(_FIREWALL,), files={}, variables={**known.variables, **less})
    apart = playbook_files(spec, hosts, scheduler, without, NODES)
    parts: dict[Part, Mapping[str, str | bytes]] = {"nodes": {**apart, **scheduler.files, **boot}}
    if any(each.role.is_server for each in layout.machines):
        # Servers have no part in the scheduler, and a new queue must not touch them.
        parts["servers"] = {**playbook_files(spec, hosts, None, known, SERVERS), **boot}
    return MachineFiles({**playbook, **scheduler.files}, parts, scheduler, hosts)


def _provided(spec: GridSpec, layout: OciLayout) -> Provided:
    """What machines on OCI have beside those elsewhere."""
    volumes = volumes_of_servers(layout)
    files: dict[str, str | bytes] = {}
    if volumes:
        files |= VOLUMES.role_files("shared_volumes")
    cards = {each.name: str(each.second_address) for each in layout.machines if each.second_address}
    if cards:
        files |= CARDS.role_files("second_card")
    targets = targets_of(layout)
    if targets:
        # Role lustre_server has it run, between its packages and its parameters.
        files |= tree(resources.files(_PACKAGE).joinpath("roles", _TARGETS), f"roles/{_TARGETS}/")
        files |= TARGETS.role_files(_TARGETS)
    return Provided(
        sources=mount_sources(spec, layout.lustre_source, services(spec)),
        addresses=layout.addresses,
        layouts=library_layouts(spec),
        roles=[
            _FIREWALL,
            *([_CARD] if cards else []),
            *([_VOLUMES] if volumes else []),
            *([SERVER_ROLE] if targets else []),
        ],
        files=files,
        variables={
            "gridwright_trusted_networks": [str(each) for each in layout.subnets.values()],
            "gridwright_volumes": volumes,
            "gridwright_second_cards": cards,
            "gridwright_lustre_servers": bool(targets),
            "gridwright_lustre_targets": targets,
            **(_server_variables(spec, layout) if targets else {}),
            "gridwright_clusters": playbook_clusters(spec, cluster_parts(spec, layout)),
        },
    )


def volumes_of_servers(layout: OciLayout) -> dict[str, list[dict[str, str]]]:
    """Name and device of each volume, by server: the same device on both servers of a pair."""
    return {
        each.name: [{"name": one.name, "device": one.device} for one in layout.volumes_of(each.name)]
        for each in layout.machines
        if layout.volumes_of(each.name)
    }


def targets_of(layout: OciLayout) -> dict[str, dict[str, object]]:
    """What each server of a Lustre serves: /etc/gridwright/targets.json of that machine, by its name."""
    found: dict[str, dict[str, object]] = {}
    for each in layout.machines:
        own = [one for one in layout.volumes_of(each.name) if one.target is not None]
        if own:
            found[each.name] = {
                "schema": 1,
                "grid": layout.grid,
                "name": each.name,
                "address": str(each.serving_address),
                "mgs": layout.lustre_source(each.group).partition(":")[0],
                "targets": [
                    {**one.target.as_document(), "device": one.device}
                    for one in own
                    if one.target is not None
                ],
            }
    return found


def _server_variables(spec: GridSpec, layout: OciLayout) -> dict[str, object]:
    """What role lustre_server is told here: how targets are started, and whose root is root."""
    return {
        "lustre_server_image_field": "oci.server_image",
        "lustre_server_targets_role": _TARGETS,
        "lustre_server_targets_unit": TARGETS.unit,
        "lustre_server_silent": True,
        "lustre_server_root_squash": root_squash_rows(spec, layout.root_nids),
    }


def oci_hosts(spec: GridSpec, layout: OciLayout) -> Hosts:
    """All machines, each with the address that it is reached at."""

    def of(*roles: OciRole) -> dict[str, dict[str, str]]:
        return {each.name: _reach(each) for each in layout.of_role(*roles)}

    groups = {
        "compute": of(OciRole.COMPUTE),
        "storage": of(*(each for each in OciRole if each.is_server)),
        "head": of(OciRole.HEAD, OciRole.LOGIN),
    }
    return Hosts(groups=groups).with_machines(spec, {each.name: _reach(each) for each in layout.machines})


def _reach(machine: OciMachine) -> dict[str, str]:
    return {"ansible_host": str(machine.serving_address)}


ROOT_FILE = "main.tf.json"
COSTS = "costs.json"


def oci_files(
    spec: GridSpec, release: str | None = None
) -> tuple[Mapping[str, str | bytes], Sequence[Finding], Hosts]:
    """All files by their path, what the scheduler's configuration found, and the machines of the inventory.

    The same spec gives the same bytes. Raises GridwrightError (INPUT) with all that cannot be built as it is
    written.
    """
    layout = checked_layout(spec)
    machines = oci_machine_files(spec, layout, release)
    bundles = machines.bundles
    clusters = cluster_documents(spec, cluster_parts(spec, layout))
    storage = storage_root(spec, layout)
    grid = grid_root(spec, layout, storage, bundles)
    # An output that nobody takes would be a value for a variable that is not declared.
    for name in grid.drop_unused_variables():
        storage.outputs.pop(name, None)
    costs = cost_document(spec, grid_model(spec))
    files: dict[str, str | bytes] = {
        **machines.files,
        f"{STORAGE}/{ROOT_FILE}": storage.text(),
        f"{GRID}/{ROOT_FILE}": grid.text(),
        **{f"{part}/{LOCK_FILE}": lock_text() for part in (STORAGE, GRID)},
        **{f"{GRID}/{name}": text for name, text in user_data_files(spec, layout).items()},
        **{f"{GRID}/{bundle_file(part)}": made.content for part, made in bundles.items()},
        **{f"clusters/{name}.json": json.dumps(each, indent=2) + "\n" for name, each in clusters.items()},
        COSTS: json.dumps(costs, indent=2) + "\n",
    }
    files["README.md"] = markdown(
        "gridwright.providers.oci",
        "README.md.j2",
        spec=spec,
        layout=layout,
        costs=costs,
        clusters=clusters,
        has_services=bool(services(spec)),
        has_lustre_service=bool(tiered_lustres(spec)),
    )
    return files, machines.scheduler.findings, machines.hosts


def checked_layout(spec: GridSpec) -> OciLayout:
    """The layout. Raises GridwrightError (INPUT) with all that cannot be built as it is written."""
    problems = [*_not_made_yet(spec), *problems_of(spec, oci_layout, check_against_catalogue)]
    if problems:
        raise GridwrightError(*problems)
    return oci_layout(spec)


def _not_made_yet(spec: GridSpec) -> Iterator[Problem]:
    for name, each in spec.filesystems.items():
        if (disks := each.node_disks) is not None and disks.type != INSTANCE_STORE:
            yield problem_at(
                spec,
                ("filesystems", name, "disks", "type"),
                f"this release does not make block volumes of nodes on OCI, and {name} lies on {disks.type}",
                f"write type: {INSTANCE_STORE} with a shape that has NVMe disks, such as "
                "VM.DenseIO.E5.Flex(8), or put its libraries on a shared file system",
            )
