"""What machines on AWS set themselves up from, the content of their bundles: playbook, Slurm, claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.model.grid import library_layouts
from gridwright.node_programs.one_file import NodeProgram
from gridwright.providers.aws.layout import (
    AwsLayout,
    Machine,
    Role,
    aws_section,
    balancer_address,
    console_machine,
    fsx_file_systems,
    partition,
    secret_name,
)
from gridwright.providers.aws.names import claims_table, group_name
from gridwright.providers.aws.power.command import SCHEMA
from gridwright.providers.aws.user_data import claim_name, role_variables
from gridwright.providers.boot.bundle import NODES, SERVERS, MachineFiles, Part, boot_files
from gridwright.providers.lustre_servers import SERVER_ROLE, built_lustres, mount_sources
from gridwright.providers.machines import machines_of_types
from gridwright.providers.shared_disks import ClusterParts, playbook_clusters, shared_disk_file_systems
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import USABLE_PART, SchedulerSetup
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import CONSOLE_PORT
from gridwright.setup.node_specs import SECRET_FILE, secret_arn
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.setup.services import ACCOUNT, CONSOLE_UNIT, PROGRAM, STATES, console_unit, quoted
from gridwright.spec.machines import inventory_group
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import GROUPS, MACHINES

# The role that serves the console on the head node: its unit, the spec that it reads, and who it is for.

CONSOLE = PlaybookRole(
    name="console",
    task="Serve the console",
    when="group_names | difference(['storage']) | length > 0",
    package="gridwright.providers.aws",
)
DIRECTORY = "/etc/gridwright/console"
_TOKEN_FILE = "/run/gridwright-console/token"  # noqa: S105 - the name of a file
_SERVICE_LINES = """\
RuntimeDirectory=gridwright-console
RuntimeDirectoryMode=0700
# Where AWS is reached through a proxy.
EnvironmentFile=-/etc/gridwright/proxy.env
# As root, which alone reaches the credentials of the machine.
ExecStartPre=+{command}
"""


def console_role_files(spec: GridSpec, layout: AwsLayout) -> Mapping[str, str]:
    """The unit and the spec as files of the role; none where there is no console.

    Raises GridwrightError for words that no unit can hold.
    """
    machine = console_machine(layout)
    if machine is None:
        return {}
    files = {"--certificate": f"{DIRECTORY}/certificate.pem", "--key": f"{DIRECTORY}/key.pem"}
    command = [
        *(PROGRAM, "console", f"{DIRECTORY}/grid.yaml"),
        *(
            "--port",
            str(CONSOLE_PORT),
            "--listen",
            str(machine.address),
            "--proxy",
            str(balancer_address(layout)),
        ),
        *(word for pair in files.items() for word in pair),
        *("--token-file", _TOKEN_FILE, "--runs", f"{STATES}/runs"),
    ]
    reading = ["/usr/bin/python3", "/usr/local/lib/gridwright/console_token.py"]
    reading += [secret_name(spec), str(spec.region), _TOKEN_FILE]
    lines = _SERVICE_LINES.format(command=" ".join(map(quoted, reading)))
    unit = console_unit(command, ACCOUNT, Path(STATES), lines)
    # Roles of the site stay where setup is run.
    values = spec.model_dump(mode="json", exclude_none=True, exclude={"setup"})
    place = f"roles/{CONSOLE.name}/files"
    return {
        f"{place}/{CONSOLE_UNIT}": f"# Grid {spec.name}\n{unit}",
        f"{place}/grid.yaml": json.dumps(values, indent=2) + "\n",
    }


def console_variables(spec: GridSpec, layout: AwsLayout) -> Mapping[str, object]:
    """What the role is told: the machine that serves it, and its key; nothing where there is no console."""
    machine = console_machine(layout)
    if machine is None:
        return {}
    return {
        "gridwright_console": machine.name,
        "gridwright_console_key": {"name": secret_name(spec), "region": str(spec.region)},
    }


_AWS, _NODE = "gridwright.providers.aws", "gridwright.node_programs"
_LUSTRE = (f"{_NODE}.scratch", f"{_NODE}.lustre_targets")
_POWER_PARTS = (f"{_NODE}.power", f"{_NODE}.scratch")
CLAIM = NodeProgram(f"{_AWS}.claim", "the claim of this machine", _LUSTRE)
DISK_NAMES = NodeProgram(f"{_AWS}.disk_names", "the look for names of volumes", (f"{_AWS}.claim", *_LUSTRE))
POWER = NodeProgram(f"{_AWS}.power", "what powers nodes on and off", _POWER_PARTS)
SPOT = NodeProgram(f"{_AWS}.spot", "the look for EC2's notice", _POWER_PARTS)
ROLL = NodeProgram(
    f"{_AWS}.roll",
    "what replaces machines",
    tuple(f"{_NODE}.{part}" for part in ("drain", "health", "scratch")),
)
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


_PACKAGE = "gridwright.providers.aws"
_PROGRAMS = ("set_up.py", "system_packages.py", "cloud.py")
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


def machine_files(spec: GridSpec, layout: AwsLayout, release: str | None) -> MachineFiles:
    """Make them; the same arguments give the same bytes. Raises GridwrightError (INPUT)."""
    threads = aws_section(spec).hyperthreads
    scheduler = scheduler_kind(spec.scheduler).setup(
        spec, lambda: machines_of_types(spec, threads=threads), release
    )
    hosts = aws_hosts(spec, layout)
    known = provided(spec, layout, scheduler)
    playbook = playbook_files(spec, hosts, scheduler, known)
    first = {claim_name(each): each for each in reversed(layout.machines) if each.replaced}
    claims: dict[str, str | bytes] = {
        f"claims/{name}.json": claim_file(spec, layout, machine) for name, machine in first.items()
    }
    if claims:
        claims["claims/claim.pyz"] = CLAIM.archive()
    files = {**playbook, **scheduler.files, **claims}
    # What only servers run is not in the bundle of nodes.
    apart = playbook_files(spec, hosts, scheduler, known, NODES) if spec.setup.only_on else playbook
    nodes = {**apart, **scheduler.files, **claims}
    parts: dict[Part, Mapping[str, str | bytes]] = {"nodes": {**nodes, **_boot(spec, layout, "nodes")}}
    if any(each.role.serves_files for each in layout.machines):
        # Servers have no part in the scheduler, and a new queue must not touch them.
        own = playbook_files(spec, hosts, None, provided(spec, layout), SERVERS)
        parts["servers"] = {**own, **claims, **_boot(spec, layout, "servers")}
    return MachineFiles(files, parts, scheduler, hosts)


def _boot(spec: GridSpec, layout: AwsLayout, part: Part) -> dict[str, str]:
    """The program that machines of a part run from their bundle, and what it tells the playbook."""
    arn = secret_arn(spec) if part == "nodes" else None
    secrets = {"boot/secrets.json": json.dumps({SECRET_FILE: arn}, indent=2) + "\n"} if arn else {}
    return boot_files("aws", _PROGRAMS, role_variables(spec, layout, part)) | secrets


def provided(spec: GridSpec, layout: AwsLayout, scheduler: SchedulerSetup | None = None) -> Provided:
    """What machines on AWS have beside those elsewhere: claims of what they are, and servers of Lustre.

    Without a scheduler it is for these servers, or for an image: both replace nobody.
    """
    beside = [inventory_group(name) for name, group in spec.machines.items() if group.replace]
    groups = [*{each.role.group for each in layout.machines if each.replaced} - {MACHINES}, *beside]
    serves = bool(built_lustres(spec))
    powers, spot = bool(spec.powered_nodes()), spot_nodes(spec)
    rolling = roller(layout) if scheduler is not None else None
    needed = (
        *((_CLAIM, bool(groups)), (SERVER_ROLE, serves), (_ROLL, rolling is not None)),
        (_DISK_NAMES, bool(layout.volumes)),
        *((_POWER, powers), (_SPOT, bool(spot)), (CONSOLE, scheduler is not None)),
    )
    carried = ((CLAIM, groups), (POWER, powers), (SPOT, spot), (DISK_NAMES, layout.volumes))
    files = {path: text for one, needs in carried if needs for path, text in one.role_files().items()}
    if rolling is not None and scheduler is not None:
        rolled = roll_file(spec, layout, scheduler.directory)
        files |= ROLL.role_files() | {"roles/roll/files/roll.json": rolled}
    if scheduler is not None:
        files |= console_role_files(spec, layout)
    return Provided(
        sources=mount_sources(spec, layout.lustre_source, fsx_file_systems(spec)),
        layouts=library_layouts(spec),
        addresses=layout.addresses,
        roles=[role for role, is_needed in needed if is_needed],
        files=files,
        variables={
            "gridwright_claims": [group for group in (*GROUPS, *beside) if group in groups],
            "gridwright_lustre_servers": serves,
            **({"gridwright_roller": rolling.name} if rolling else {}),
            **(console_variables(spec, layout) if scheduler is not None else {}),
            **_pairs(spec, layout),
            "gridwright_power": power_configuration(spec) if powers else {},
            "gridwright_spot_nodes": spot,
            # The clients that AWS builds for kernels of its images, where the site names no repository.
            "gridwright_aws_packages": True,
            "gridwright_trusted_networks": [str(each) for each in layout.networks],
        },
    )


def _pairs(spec: GridSpec, layout: AwsLayout) -> dict[str, object]:
    """What roles are told of clusters, and of the volumes that pairs of servers share."""
    clusters = playbook_clusters(spec, cluster_parts(spec, layout))
    disks = {"grid": spec.name, "region": spec.region, "disks": named_disks(layout)}
    return {
        **({"gridwright_clusters": clusters} if clusters else {}),
        **({"gridwright_disk_names": disks} if layout.volumes else {}),
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


_ORDER = (Role.OSS, Role.MDS, Role.MGS, Role.COMPUTE, Role.MACHINE)
"""A metadata server stops a whole file system while it is away: the others show first that it goes well."""


def roller(layout: AwsLayout) -> Machine | None:
    """The machine that runs it: the head node, else the login node; None where no group replaces anything."""
    if not any(each.replaced for each in layout.machines):
        return None
    return next(iter((*layout.of_role(Role.HEAD), *layout.of_role(Role.LOGIN))), None)


def roll_file(spec: GridSpec, layout: AwsLayout, directory: str) -> str:
    """What it is told; `directory` is where the scheduler has its configuration, empty for one without."""
    groups: dict[str, list[Machine]] = {}
    for machine in sorted(layout.machines, key=lambda each: _ORDER.index(each.role) if each.replaced else -1):
        if machine.replaced:
            name = group_name(spec.name, machine.group, str(machine.role), serves=machine.role.serves_lustre)
            groups.setdefault(name, []).append(machine)
    limit = layout.aws.drain_limit
    content = {
        "schema": 1,
        "grid": spec.name,
        "region": spec.region,
        "table": claims_table(spec),
        "groups": [
            {
                "name": name,
                "servers": machines[0].role.serves_lustre,
                "jobs": machines[0].role is Role.COMPUTE,
                "machines": [each.name for each in machines],
                "targets": [one.name for each in machines for one in each.targets],
            }
            for name, machines in groups.items()
        ],
        "slurm_conf": f"{directory}/slurm.conf" if directory else None,
        "drain_limit_seconds": None if limit is None else limit,
    }
    return json.dumps(content, indent=2) + "\n"


def power_configuration(spec: GridSpec) -> dict[str, Any]:
    """What the program reads; its groups are those with powered nodes."""
    groups = []
    for name, group in spec.nodes.items():
        if powered := group.powered_names(name):
            always_on = [each for each in group.node_names(name) if each not in set(powered)]
            known = {"name": name, "instance": group.instance, "always_on": always_on, "powered": powered}
            groups.append(known)
    return {
        "schema": SCHEMA,
        "grid": spec.name,
        "region": spec.region,
        "table": claims_table(spec),
        "groups": groups,
    }


def spot_nodes(spec: GridSpec) -> list[str]:
    """Nodes that are spot instances."""
    return [each for name, group in spec.nodes.items() if group.spot for each in group.node_names(name)]


def named_disks(layout: AwsLayout) -> dict[str, list[dict[str, str]]]:
    """Names and tags of the volumes of each server in a pair, by server."""
    return {
        each.name: [
            {"path": one.path, "slot": one.slot, "target": one.name} for one in layout.volumes_of(each.name)
        ]
        for each in layout.machines
        if each.pair
    }
