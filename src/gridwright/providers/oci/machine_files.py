"""What machines on OCI set themselves up from, the content of the bundles: playbook, scheduler, volumes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources

from gridwright.model.layouts import library_layouts
from gridwright.providers.boot.bundle import Bundle, Part, bundle
from gridwright.providers.boot.known_distributions import known_distributions
from gridwright.providers.lustre_servers import SERVER_ROLE, root_squash_rows
from gridwright.providers.machines import machines_of_types
from gridwright.providers.oci import cards_program, targets_program, volumes_program
from gridwright.providers.oci.clusters import cluster_parts
from gridwright.providers.oci.layout import OciLayout, OciMachine, OciRole
from gridwright.providers.oci.services import mount_sources
from gridwright.providers.oci.user_data import boot_file
from gridwright.providers.shared_disks import playbook_clusters
from gridwright.schedulers import kind_of
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.playbook import Hosts, Provided, playbook_files, tree
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import MACHINES

NODES, SERVERS = ("compute", "head", MACHINES), ("storage",)
"""Groups of the machines of each part: a role of the site is in the bundle of those that run it."""
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


@dataclass(frozen=True, slots=True)
class OciMachineFiles:
    """Files by their path."""

    files: Mapping[str, str | bytes]
    """All that `render` shows: the playbook for all machines, with what sets up their scheduler."""
    parts: Mapping[Part, Mapping[str, str | bytes]]
    """What machines of each part set themselves up from."""
    scheduler: SchedulerSetup
    hosts: Hosts

    @property
    def bundles(self) -> dict[Part, Bundle]:
        """An archive of each part."""
        return {part: bundle(content) for part, content in self.parts.items()}


def oci_machine_files(spec: GridSpec, layout: OciLayout, release: str | None) -> OciMachineFiles:
    """Make them; the same arguments give the same bytes. Raises GridwrightError (INPUT)."""
    scheduler = kind_of(spec.scheduler).setup(spec, lambda: machines_of_types(spec), release)
    hosts = oci_hosts(spec, layout)
    known = _provided(spec, layout)
    playbook = playbook_files(spec, hosts, scheduler, known)
    # What only servers run is not in the bundle of nodes.
    less: dict[str, object] = dict.fromkeys(("gridwright_volumes", "gridwright_second_cards", *_OF_SERVERS))
    without = replace(known, roles=(_FIREWALL,), files={}, variables={**known.variables, **less})
    apart = playbook_files(spec, hosts, scheduler, without, NODES)
    parts: dict[Part, Mapping[str, str | bytes]] = {"nodes": {**apart, **scheduler.files, **_boot()}}
    if any(each.role.is_server for each in layout.machines):
        # Servers have no part in the scheduler, and a new queue must not touch them.
        parts["servers"] = {**playbook_files(spec, hosts, None, known, SERVERS), **_boot()}
    return OciMachineFiles({**playbook, **scheduler.files}, parts, scheduler, hosts)


def _boot() -> dict[str, str]:
    """The program that machines run from their bundle, and what it tells the playbook."""
    return {
        **{f"boot/{name}": boot_file(name) for name in _PROGRAMS},
        "boot/variables.json": json.dumps({}) + "\n",
        "boot/distributions.json": known_distributions(on_oci=True),
    }


def _provided(spec: GridSpec, layout: OciLayout) -> Provided:
    """What machines on OCI have beside those elsewhere."""
    volumes = volumes_of_servers(layout)
    files: dict[str, str | bytes] = {}
    if volumes:
        files["roles/shared_volumes/files/volumes.pyz"] = volumes_program.build_zipapp()
        files[f"roles/shared_volumes/files/{volumes_program.UNIT}"] = volumes_program.unit_file()
    cards = {each.name: str(each.second_address) for each in layout.machines if each.second_address}
    if cards:
        files["roles/second_card/files/cards.pyz"] = cards_program.build_zipapp()
        files[f"roles/second_card/files/{cards_program.UNIT}"] = cards_program.unit_file()
    targets = targets_of(layout)
    if targets:
        # Role lustre_server has it run, between its packages and its parameters.
        files |= tree(resources.files(_PACKAGE).joinpath("roles", _TARGETS), f"roles/{_TARGETS}/")
        files[f"roles/{_TARGETS}/files/targets.pyz"] = targets_program.build_zipapp()
        files[f"roles/{_TARGETS}/files/{targets_program.UNIT}"] = targets_program.unit_file()
    return Provided(
        sources=mount_sources(spec, layout),
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
        "lustre_server_targets_unit": targets_program.UNIT,
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
