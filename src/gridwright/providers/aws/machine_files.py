"""What machines set themselves up from, the content of the bundle: playbook, Slurm, claims.

Machines and shared volumes of a grid on AWS, as the kinds of file systems that join them know them.

The program that machines of a cloud run at their start: package `claim` as one file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk
from gridwright.model.layouts import library_layouts
from gridwright.node_programs.one_file import DIRECTORY, one_file, unit_of
from gridwright.providers.aws import disk_names_program, power_program, roll_program, spot_program
from gridwright.providers.aws.console_role import ROLE as CONSOLE
from gridwright.providers.aws.console_role import console_role_files, console_variables
from gridwright.providers.aws.disk_pairs import partition
from gridwright.providers.aws.layout import AwsLayout, Machine, Role, aws_section, fsx_file_systems
from gridwright.providers.aws.names import claims_table
from gridwright.providers.aws.user_data import boot_file, claim_name, role_variables
from gridwright.providers.boot.bundle import Part
from gridwright.providers.boot.known_distributions import known_distributions
from gridwright.providers.lustre_servers import SERVER_ROLE, built_lustres
from gridwright.providers.machines import machines_of_types
from gridwright.providers.shared_disks import ClusterParts, playbook_clusters, shared_disk_file_systems
from gridwright.schedulers import kind_of
from gridwright.schedulers.machines import USABLE_PART
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.setup.users_spec import SECRET_FILE, secret_arn
from gridwright.spec.machines import inventory_group
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import GROUPS, MACHINES

PROGRAM = DIRECTORY / "claim.pyz"
"""Where machines have it."""
UNIT = "gridwright-claim.service"
_CLAIM_PACKAGE = "gridwright.providers.aws.claim"


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it looks at disks with the readers of scratch."""
    others = ["gridwright.node_programs.scratch", "gridwright.node_programs.lustre_targets"]
    return one_file(_CLAIM_PACKAGE, "the claim of this machine", others)


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_CLAIM_PACKAGE)


_CLIENTS = (Role.LOGIN, Role.HEAD, Role.COMPUTE)


def cluster_parts(spec: GridSpec, layout: AwsLayout) -> dict[str, ClusterParts]:
    """Machines and disks of each file system that is a cluster, by the file system's name."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    clients = [*layout.of_role(*_CLIENTS), *(each for each in layout.machines if _mounts(spec, each))]
    found = {}
    for name in shared_disk_file_systems(spec):
        servers = [
            _machine(each, catalog, domain=partition(number))
            for number, each in enumerate(layout.pairs_of(name), start=1)
        ]
        disks = [
            PairDisk(volume=one.logical_id, device=one.path, pair=one.pair, index=one.index)
            for one in layout.volumes
            if one.filesystem == name
        ]
        found[name] = ClusterParts([*servers, *(_machine(each, catalog) for each in clients)], disks)
    return found


def _mounts(spec: GridSpec, machine: Machine) -> bool:
    """Whether a machine beside the nodes mounts what they mount."""
    return machine.role is Role.MACHINE and spec.machines[machine.group].mounts


def _machine(machine: Machine, catalog: Catalog, domain: int = 0) -> ClusterMachine:
    instance = catalog.instance(machine.instance, "aws")
    return ClusterMachine(
        name=machine.name,
        address=str(machine.address),
        is_server=machine.role is Role.NSD,
        pair=machine.pair,
        fault_domain=domain,
        # Login and head node are small: what suits nodes would not fit into their memory.
        runs_jobs=machine.role not in (Role.LOGIN, Role.HEAD),
        memory_bytes=int(instance.memory_bytes * USABLE_PART),
        nic_bytes_per_s=instance.network.baseline_bytes_per_s,
    )


NODES, SERVERS = ("compute", "head", MACHINES), ("storage",)
"""Groups of the machines of each part: a role of the site is in the bundle of those that run it."""

_PACKAGE = "gridwright.providers.aws"
_CLAIM = PlaybookRole(
    name="claim",
    task="Claim name, address and volumes",
    when="gridwright_claims | default([]) | intersect(group_names) | length > 0 "
    "and not gridwright_serves_lustre "
    "and inventory_hostname not in gridwright_disk_names.disks | default({})",
    package=_PACKAGE,
)
_DISK_NAMES = PlaybookRole(
    name="disk_names",
    task="Name volumes that servers share",
    when="inventory_hostname in gridwright_disk_names.disks | default({})",
    package=_PACKAGE,
)
_POWER = PlaybookRole(
    name="power",
    task="Power nodes on and off for the scheduler",
    when="gridwright_power | default({}) | length > 0 and 'head' in group_names",
    package=_PACKAGE,
)
_SPOT = PlaybookRole(
    name="spot",
    task="Look for notices of EC2",
    when="inventory_hostname in gridwright_spot_nodes | default([])",
    package=_PACKAGE,
)
_ROLL = PlaybookRole(
    name="roll",
    task="Replace machines of groups",
    when="gridwright_roller | default('') == inventory_hostname",
    package=_PACKAGE,
    comment="Before slurm.conf is written: nodes that are replaced later keep their lines in it until then.",
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
    hosts = aws_hosts(spec, layout)
    known = provided(spec, layout, scheduler)
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
    if any(each.role.serves_files for each in layout.machines):
        # Servers have no part in the scheduler, and a new queue must not touch them.
        own = playbook_files(spec, hosts, None, provided(spec, layout), SERVERS)
        parts["servers"] = {**own, **claims, **_boot(spec, layout, "servers")}
    return MachineFiles(files, parts, claims, scheduler, hosts)


def _boot(spec: GridSpec, layout: AwsLayout, part: Part) -> dict[str, str]:
    """The program that machines of a part run from their bundle, and what it tells the playbook."""
    known = json.dumps(role_variables(spec, layout, part), indent=2) + "\n"
    arn = secret_arn(spec) if part == "nodes" else None
    secrets = {"boot/secrets.json": json.dumps({SECRET_FILE: arn}, indent=2) + "\n"} if arn else {}
    return {
        **{f"boot/{name}": boot_file(name) for name in ("set_up.py", "system_packages.py", "cloud.py")},
        "boot/variables.json": known,
        "boot/distributions.json": known_distributions(),
        **secrets,
    }


def provided(spec: GridSpec, layout: AwsLayout, scheduler: SchedulerSetup | None = None) -> Provided:
    """What machines on AWS have beside those elsewhere: claims of what they are, and servers of Lustre.

    Without a scheduler it is for these servers, or for an image: both replace nobody.
    """
    beside = [inventory_group(name) for name, group in spec.machines.items() if group.replace]
    groups = [*{each.role.group for each in layout.machines if each.replaced} - {MACHINES}, *beside]
    serves = bool(built_lustres(spec))
    powers, spot = bool(spec.powered_nodes()), spot_program.spot_nodes(spec)
    roller = roll_program.roller(layout) if scheduler is not None else None
    needed = (
        *((_CLAIM, bool(groups)), (SERVER_ROLE, serves), (_ROLL, roller is not None)),
        (_DISK_NAMES, bool(layout.volumes)),
        *((_POWER, powers), (_SPOT, bool(spot)), (CONSOLE, scheduler is not None)),
    )
    files = _programs(claim=bool(groups), power=powers, spot=bool(spot))
    if layout.volumes:
        files["roles/disk_names/files/disk_names.pyz"] = disk_names_program.build_zipapp()
    if roller is not None and scheduler is not None:
        files |= _roll_files(spec, layout, scheduler)
    if scheduler is not None:
        files |= console_role_files(spec, layout)
    return Provided(
        sources=mount_sources(spec, layout),
        layouts=library_layouts(spec),
        addresses=layout.addresses,
        roles=[role for role, is_needed in needed if is_needed],
        files=files,
        variables={
            "gridwright_claims": [group for group in (*GROUPS, *beside) if group in groups],
            "gridwright_lustre_servers": serves,
            **({"gridwright_roller": roller.name} if roller else {}),
            **(console_variables(spec, layout) if scheduler is not None else {}),
            **_pairs(spec, layout),
            "gridwright_power": power_program.power_configuration(spec) if powers else {},
            "gridwright_spot_nodes": spot,
            # The clients that AWS builds for kernels of its images, where the site names no repository.
            "gridwright_aws_packages": True,
            "gridwright_trusted_networks": [str(each) for each in layout.networks],
        },
    )


def _pairs(spec: GridSpec, layout: AwsLayout) -> dict[str, object]:
    """What roles are told of clusters, and of the volumes that pairs of servers share."""
    clusters = playbook_clusters(spec, cluster_parts(spec, layout))
    disks = {"grid": spec.name, "region": spec.region, "disks": disk_names_program.named_disks(layout)}
    return {
        **({"gridwright_clusters": clusters} if clusters else {}),
        **({"gridwright_disk_names": disks} if layout.volumes else {}),
    }


def _programs(*, claim: bool, power: bool, spot: bool) -> dict[str, str | bytes]:
    """Programs of these roles, and the units that run them."""
    files: dict[str, str | bytes] = {}
    if claim:
        files |= {"roles/claim/files/claim.pyz": build_zipapp(), f"roles/claim/files/{UNIT}": unit_file()}
    if power:
        files["roles/power/files/power.pyz"] = power_program.build_zipapp()
        files[f"roles/power/files/{power_program.UNIT}"] = power_program.unit_file()
    if spot:
        files["roles/spot/files/spot.pyz"] = spot_program.build_zipapp()
        files[f"roles/spot/files/{spot_program.UNIT}"] = spot_program.unit_file()
    return files


def _roll_files(spec: GridSpec, layout: AwsLayout, scheduler: SchedulerSetup) -> dict[str, str | bytes]:
    """The program that replaces machines, with its unit and what it is told."""
    return {
        "roles/roll/files/roll.pyz": roll_program.build_zipapp(),
        f"roles/roll/files/{roll_program.UNIT}": roll_program.unit_file(),
        "roles/roll/files/roll.json": roll_program.roll_file(spec, layout, scheduler.directory),
    }


def aws_hosts(spec: GridSpec, layout: AwsLayout) -> Hosts:
    """All machines, each with the address that it is reached at whatever the name service knows."""
    return Hosts(
        groups={
            group: {
                each.name: {"ansible_host": str(each.address)}
                for each in layout.machines
                if each.role.group == group
            }
            for group in GROUPS
            if group != MACHINES
        }
    ).with_machines(spec, {name: {"ansible_host": each} for name, each in layout.addresses.items()})


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
        "slots": [_slot(each) for each in group],
    }
    return json.dumps(content, indent=2) + "\n"


def _slot(machine: Machine) -> dict[str, Any]:
    known = {
        "name": machine.name,
        "address": str(machine.address),
        "targets": [each.as_document() for each in machine.targets],
    }
    return {**known, "powered": True} if machine.powered else known
