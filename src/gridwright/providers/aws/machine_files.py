"""What machines on AWS set themselves up from: user data, and their bundles of playbook, Slurm and claims.

User data is the program that fetches a bundle, with its settings. It has nothing that changes while a grid
is up, and CloudFormation replaces no machine for another bundle.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from troposphere import AWSHelperFn, Base64, ImportValue, Sub

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
from gridwright.providers.aws.names import Export, claims_table, fsx_export, group_name, storage_stack
from gridwright.providers.aws.power import SCHEMA
from gridwright.providers.aws.session import Cloud
from gridwright.providers.boot.bundle import (
    NODES,
    SERVERS,
    BootReport,
    MachineFiles,
    Part,
    boot_file,
    boot_files,
    here,
    multipart,
    pointer,
)
from gridwright.providers.file_servers import (
    SERVER_ROLE,
    ClusterParts,
    built_lustres,
    mount_sources,
    playbook_clusters,
    root_squash_rows,
    shared_disk_file_systems,
)
from gridwright.providers.machines import machines_of_types
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.machines import USABLE_PART, SchedulerSetup, SharedKey
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import CONSOLE_PORT
from gridwright.setup.node_specs import SECRET_FILE, secret_arn
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.setup.services import ACCOUNT, CONSOLE_UNIT, PROGRAM, STATES, console_unit, quoted
from gridwright.spec.machines import inventory_group
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import GROUPS, MACHINES

# What machines tell of how they set themselves up: rows of the table of claims, one for each instance.

BOOT = "boot#"
"""What the keys of these rows begin with; the ARN of the instance follows."""
NAMESPACE, FAILURES, GRID = "Gridwright", "SetUpFailures", "Grid"
"""The metric of boots that failed for good, and its dimension: boot/set_up.py counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsBootReport(BootReport):
    """What an instance told."""

    key: str
    """Of the row."""

    def is_of_this_start(self, instance: Mapping[str, Any]) -> bool:
        """Whether it was told since EC2 started the instance: each start sets a machine up again.

        One that was stopped and started with other user data has told of the same bundle before.
        """
        started = instance.get("LaunchTime")
        return not self.at or started is None or datetime.fromisoformat(self.at) >= started


def boot_reports(rows: Iterable[Mapping[str, Any]]) -> dict[str, AwsBootReport]:
    """The reports among the rows of the table of claims, by instance."""
    found = [_report(row) for row in rows if row["slot"]["S"].startswith(BOOT)]
    return {each.instance: each for each in found}


def _report(row: Mapping[str, Any]) -> AwsBootReport:
    texts = {
        name: str(row.get(name, {}).get("S", ""))
        for name in ("slot", "instance", "name", "state", "bundle", "reason", "log", "at")
    }
    return AwsBootReport(
        key=texts["slot"],
        instance=texts["instance"] or texts["slot"].rpartition("/")[2],
        name=texts["name"],
        state=texts["state"],
        bundle=texts["bundle"],
        tries=int(row.get("tries", {}).get("N", 1)),
        reason=texts["reason"],
        log=texts["log"],
        at=texts["at"],
    )


def forget_gone(
    cloud: Cloud, spec: GridSpec, reports: Mapping[str, AwsBootReport], there: Collection[str]
) -> None:
    """Remove the reports of instances that are gone."""
    for instance, report in reports.items():
        if instance not in there:
            cloud.call(
                "dynamodb", "delete_item", TableName=claims_table(spec), Key={"slot": {"S": report.key}}
            )


LARGEST = 16 * 1024
"""Bytes of user data that EC2 takes (EC2 User Guide, user data)."""


@dataclass(frozen=True)
class UserData:
    """Text with placeholders, as Fn::Sub takes it, and what stands for those that are not of the stack."""

    text: str
    values: Mapping[str, AWSHelperFn] = field(default_factory=dict)

    def property(self) -> Base64:
        """The property of a machine."""
        return Base64(Sub(self.text, **self.values))


def user_data(
    spec: GridSpec, layout: AwsLayout, machines: tuple[Machine, ...], auto_scaling: str | None
) -> UserData:
    """Of machines that are alike: one machine, or those of the Auto Scaling group with this logical ID."""
    aws, first = layout.aws, machines[0]
    values: dict[str, AWSHelperFn] = {"Bucket": import_value(spec, Export.SITE_BUCKET)}
    settings: dict[str, Any] = {
        "schema": 3,
        "stack": "${AWS::StackName}",
        "region": "${AWS::Region}",
        "bucket": "${Bucket}",
        "pointer": pointer(part_of(first.role)),
        "table": claims_table(spec),
        "group": auto_scaling,
        "name": None if first.replaced else first.name,
        "claim": claim_name(first) if first.replaced else None,
        "key": _key_of(spec, first.role),
        "sources": {},
    }
    if not first.role.serves_files:
        for name in fsx_file_systems(spec):
            dns, mount = fsx_export(name, "Dns"), fsx_export(name, "Mount")
            settings["sources"][name] = f"${{{dns}}}@tcp:/${{{mount}}}"
            values |= {dns: import_value(spec, dns), mount: import_value(spec, mount)}
    parts = [boot_file("aws", "preamble.sh")]
    if aws.proxy is not None:
        parts.append(_proxy(aws.proxy, ",".join(map(str, layout.networks)), spec.region or ""))
    parts += [
        here("etc/gridwright/boot.json", json.dumps(settings, indent=1)),
        *(
            here(f"var/lib/gridwright/{name}", _literal(boot_file("aws", name)))
            for name in ("fetch.py", "begin.sh", "boto3.lock")
        ),
        boot_file("aws", "start.sh"),
    ]
    literal = [_literal(parts[0]), *parts[1:-1], _literal(parts[-1])]
    return UserData(multipart("\n".join(literal)), values)


def part_of(role: Role) -> Part:
    """What machines of a role set themselves up from."""
    return "servers" if role.serves_files else "nodes"


def role_variables(spec: GridSpec, layout: AwsLayout, part: Part) -> dict[str, Any]:
    """What the roles are told beside the grid spec."""
    if part == "servers":
        return {"lustre_server_root_squash": root_squash_rows(spec, layout.root_nids)}
    return {}


def claim_name(machine: Machine) -> str:
    """The claim file, within the bundle, of machines that are replaced."""
    return f"{machine.group}-{machine.role}"


def shared_key(spec: GridSpec, role: Role) -> SharedKey | None:
    """The key that machines of a role share for their scheduler; None where they have no part in it."""
    return None if role.serves_files or role is Role.MACHINE else scheduler_kind(spec.scheduler).shared_key


def key_id(key: SharedKey) -> str:
    """Logical ID of the secret that holds a key."""
    return f"{key.name.capitalize()}Key"


def _key_of(spec: GridSpec, role: Role) -> dict[str, str] | None:
    key = shared_key(spec, role)
    if key is None:
        return None
    return {"name": key.name, "variable": key.variable, "secret": f"${{{key_id(key)}}}"}


def import_value(spec: GridSpec, name: str) -> ImportValue:
    """What the storage stack tells under this name."""
    return ImportValue(f"{storage_stack(spec)}-{name}")


def _literal(text: str) -> str:
    """As Fn::Sub leaves it."""
    return text.replace("${", "${!")


def _proxy(proxy: str, networks: str, region: str) -> str:
    """What the environment says to most programs; S3 and DynamoDB have gateways in the network itself."""
    local = f"localhost,127.0.0.1,169.254.169.254,{networks}"
    gateways = [f"s3.{region}.amazonaws.com", "s3.amazonaws.com", f"dynamodb.{region}.amazonaws.com"]
    direct = ",".join([local, *gateways, *(f".{each}" for each in gateways[:2])])
    lines = [f"export {name}={proxy}" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")]
    return "\n".join([*lines, f"export no_proxy={direct}", 'export NO_PROXY="$no_proxy"'])


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
