"""What machines set themselves up from, the content of the bundle: playbook, Slurm, claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from gridwright.providers.aws.claim_program import UNIT, build_zipapp, unit_file
from gridwright.providers.aws.layout import AwsLayout, Machine, aws_section, built_lustres, fsx_file_systems
from gridwright.providers.aws.names import claims_table
from gridwright.providers.aws.user_data import Part, claim_name, role_variables
from gridwright.providers.machines import machines_of_types
from gridwright.schedulers import kind_of
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.distributions import distributions
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import GROUPS

MOUNTED_BELOW = "/srv/gridwright"
"""Where servers mount their targets."""
METADATA = ("169.254.169.254", "fd00:ec2::254")
"""Addresses of the metadata service (EC2 User Guide, instance metadata)."""

NODES, SERVERS = ("compute", "head"), ("storage",)
"""Groups of the machines of each part: a role of the site is in the bundle of those that run it."""

_PACKAGE = "gridwright.providers.aws"
_CLAIM = PlaybookRole(
    name="claim",
    task="Claim name, address and volumes",
    when="gridwright_claims | default([]) | intersect(group_names) | length > 0 "
    "and not gridwright_serves_lustre",
    package=_PACKAGE,
)
_SERVER = PlaybookRole(
    name="lustre_server", task="Serve Lustre", when="gridwright_serves_lustre", package=_PACKAGE
)


@dataclass(frozen=True, slots=True)
class MachineFiles:
    """Files by their path."""

    files: Mapping[str, str | bytes]
    """All that `render` shows: the playbook for all machines, with what sets up their scheduler."""
    parts: Mapping[Part, Mapping[str, str | bytes]]
    """What machines of each part set themselves up from."""
    claims: Mapping[str, str | bytes]
    """Those that only machines on AWS have a use for."""
    scheduler: SchedulerSetup
    hosts: Hosts


def machine_files(spec: GridSpec, layout: AwsLayout, release: str | None) -> MachineFiles:
    """Make them; the same arguments give the same bytes. Raises GridwrightError (INPUT)."""
    threads = aws_section(spec).hyperthreads
    scheduler = kind_of(spec.scheduler).setup(spec, lambda: machines_of_types(spec, threads=threads), release)
    hosts = aws_hosts(layout)
    known = provided(spec, layout)
    playbook = playbook_files(spec, hosts, scheduler, known)
    first = {claim_name(each): each for each in reversed(layout.machines) if each.replaced}
    claims: dict[str, str | bytes] = {
        f"claims/{name}.json": claim_file(spec, layout, machine) for name, machine in first.items()
    }
    if claims:
        claims["claims/claim.pyz"] = build_zipapp()
    files = {**playbook, **scheduler.files, **claims}
    # What only servers run is not in the bundle of nodes.
    apart = playbook_files(spec, hosts, scheduler, known, NODES) if spec.setup.only_on else playbook
    nodes = {**apart, **scheduler.files, **claims}
    parts: dict[Part, Mapping[str, str | bytes]] = {"nodes": {**nodes, **_boot(spec, layout, "nodes")}}
    if built_lustres(spec):
        # Servers have no part in the scheduler, and a new queue must not touch them.
        own = playbook_files(spec, hosts, None, known, SERVERS)
        parts["servers"] = {**own, **claims, **_boot(spec, layout, "servers")}
    return MachineFiles(files, parts, claims, scheduler, hosts)


def _boot(spec: GridSpec, layout: AwsLayout, part: Part) -> dict[str, str]:
    """The program that machines of a part run from their bundle, and what it tells the playbook."""
    program = resources.files(f"{_PACKAGE}.boot").joinpath("set_up.py").read_text("ascii")
    known = json.dumps(role_variables(spec, layout, part), indent=2) + "\n"
    return {
        "boot/set_up.py": program,
        "boot/variables.json": known,
        "boot/distributions.json": known_distributions(),
    }


def known_distributions() -> str:
    """What machines have to know of distributions at their start, before they can read YAML."""
    rows = [
        {
            "id": each.os.id,
            "version": each.os.version,
            "refused": None if each.in_cloud else each.reason,
            "ansible": each.built.ansible.packages if each.built else [],
        }
        for each in distributions()
    ]
    return "".join(["[\n", ",\n".join(f" {json.dumps(row)}" for row in rows), "\n]\n"])


def provided(spec: GridSpec, layout: AwsLayout) -> Provided:
    """What machines on AWS have beside those elsewhere: claims of what they are, and servers of Lustre."""
    groups = {each.role.group for each in layout.machines if each.replaced}
    serves = bool(built_lustres(spec))
    return Provided(
        sources=mount_sources(spec, layout),
        addresses=layout.addresses,
        roles=[role for role, is_needed in ((_CLAIM, groups), (_SERVER, serves)) if is_needed],
        files={
            "roles/claim/files/claim.pyz": build_zipapp(),
            f"roles/claim/files/{UNIT}": unit_file(),
        }
        if groups
        else {},
        variables={
            "gridwright_claims": [group for group in GROUPS if group in groups],
            "gridwright_lustre_servers": serves,
            "gridwright_metadata": {"addresses": list(METADATA)},
            # The clients that AWS builds for kernels of its images, where the site names no repository.
            "gridwright_aws_packages": True,
            "gridwright_trusted_networks": [layout.aws.network],
        },
    )


def aws_hosts(layout: AwsLayout) -> Hosts:
    """All machines, each with the address that it is reached at whatever the name service knows."""
    return Hosts(
        groups={
            group: {
                each.name: {"ansible_host": str(each.address)}
                for each in layout.machines
                if each.role.group == group
            }
            for group in GROUPS
        }
    )


def mount_sources(spec: GridSpec, layout: AwsLayout) -> dict[str, str]:
    """What nodes mount of file systems that the spec gives no source of.

    AWS names an FSx for Lustre when it makes it, so that each machine is told at its start.
    """
    built = {name: layout.lustre_source(name) for name in built_lustres(spec)}
    bought = {name: f"{{{{ gridwright_sources['{name}'] }}}}" for name in fsx_file_systems(spec)}
    return built | bought


def claim_file(spec: GridSpec, layout: AwsLayout, like: Machine) -> str:
    """What machines like this one can become; `gridwright node claim` reads it."""
    group = [each for each in layout.machines if (each.group, each.role) == (like.group, like.role)]
    mgs = layout.lustre_source(like.group).partition(":")[0] if like.role.serves_lustre else None
    content = {
        "schema": 1,
        "grid": spec.name,
        "region": spec.region,
        "table": claims_table(spec),
        "role": str(like.role),
        "mgs": mgs,
        "slots": [
            {"name": each.name, "address": str(each.address), "targets": _targets(each)} for each in group
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _targets(machine: Machine) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "kind": each.kind,
            "index": each.index,
            "fsname": each.fsname,
            "with_mgt": each.with_mgt,
            "mount": f"{MOUNTED_BELOW}/{each.name}",
        }
        for each in machine.targets
    ]
