"""Sets up Slurm on the machines of a grid, and in a lab: files, what its role has to know, daemons.

In a lab slurmctld, MariaDB and slurmdbd run on the controller, slurmd on the nodes that run jobs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from gridwright.node_programs.health.configuration import CONFIGURATION
from gridwright.node_programs.one_file import HEALTH, HEALTH_STARTER, HEALTH_STARTER_TEXT
from gridwright.node_programs.power import DIRECTORY as PROGRAM_DIRECTORY
from gridwright.node_programs.power import PROGRAMS, program
from gridwright.schedulers.machines import (
    CgroupVersion,
    GridMachines,
    NodeHardware,
    SchedulerNodes,
    SchedulerSetup,
    SetupStep,
    hardware_of_nodes,
)
from gridwright.schedulers.slurm.configuration import (
    DATABASE_CONFIGURATION,
    DIRECTORY,
    LOGS,
    OLDEST,
    SPOOL,
    USER,
    SlurmParameters,
    parse_release,
    parse_slurmd_hardware,
    slurm_configuration,
    slurm_parameters,
    state_location,
)
from gridwright.schedulers.slurm.section import section_of
from gridwright.services.service import (
    ServiceNode,
    call,
    make_directory,
    run_on_nodes,
    runs,
    start_daemon,
    wait_for,
)
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec

_MEANING = {
    "slurm/slurm.conf": "of all nodes",
    "slurm/cgroup.conf": "of all nodes: how jobs are kept to their memory",
    "slurm/slurmdbd.conf": "of the controller only: the database of ended jobs",
    "slurm/power": "of the controller, as "
    + ", ".join(each.name for each in PROGRAMS)
    + f" in {PROGRAM_DIRECTORY}",
    "slurm/health": f"of nodes that run jobs, as {HEALTH_STARTER}: Slurm runs it now and then",
    "slurm/health.pyz": f"the same, as {HEALTH.path}: a node without its mounts drains itself",
}
_DATABASE_PACKAGES = "slurmdbd mariadb-server"


def slurm_setup(spec: GridSpec, machines: GridMachines, release: str | None) -> SchedulerSetup:
    """The set-up of a grid's Slurm; see SchedulerKind.setup."""
    parameters = slurm_parameters(spec, machines, OLDEST if release is None else parse_release(release))
    configuration = slurm_configuration(spec, parameters)
    files: dict[str, str | bytes] = {f"slurm/{name}": text for name, text in configuration.files.items()}
    files |= {"slurm/health": HEALTH_STARTER_TEXT, "slurm/health.pyz": HEALTH.archive()}
    powers = bool(spec.powered_nodes())
    if powers:
        files["slurm/power"] = program()
    names = fold_hosts(node.name for node in parameters.nodes)
    return SchedulerSetup(
        files=files,
        file_meanings={name: _MEANING[name] for name in files},
        directory=str(DIRECTORY),
        variables={
            "nodes": [node.name for node in parameters.nodes],
            "controllers": controllers(spec, parameters),
            "state": str(state_location(spec, parameters)),
            "spool": str(SPOOL),
            "logs": str(LOGS),
            **({"power_programs": [str(each) for each in PROGRAMS]} if powers else {}),
        },
        findings=configuration.findings,
        key_note="No secret is among them: the key of munge, by which nodes trust each other, is made below.",
        introduction="As root on the controller, on Debian or Ubuntu; names of nodes must resolve on each of "
        f"them, and their clocks must agree. Controller: {' and '.join(controllers(spec, parameters))}. "
        f"Nodes that run jobs: {names}.",
        steps=tuple(_steps(spec, parameters, shlex.quote(names))),
        hardware_check="hold NodeName in slurm.conf against `slurmd -C` on each node",
    )


def controllers(spec: GridSpec, parameters: SlurmParameters) -> list[str]:
    """The nodes that slurmctld runs on: the controller, then its backup."""
    names = [parameters.controller]
    if section_of(spec).backup_controller and parameters.backup not in names:
        names.append(parameters.backup)
    return names


def _steps(spec: GridSpec, parameters: SlurmParameters, nodes: str) -> Iterator[SetupStep]:
    """The steps by hand; `nodes` is quoted, as a shell would take its brackets for a pattern."""
    section = section_of(spec)
    database = f" {_DATABASE_PACKAGES}" if section.has_database else ""
    controller = " slurmctld" if section.backup_controller else ""
    yield SetupStep(
        "One release of Slurm everywhere",
        (
            f"apt-get install -y slurmctld slurm-client munge clustershell{database}",
            f"clush -w {nodes} apt-get install -y slurmd{controller} slurm-client munge",
        ),
    )
    yield SetupStep("The key of munge: a secret, the same on all nodes", tuple(_key(nodes)))
    yield SetupStep("Directories and files", tuple(_directories(spec, parameters, nodes)))
    if section.has_database:
        yield SetupStep(
            "The database of ended jobs",
            tuple(_database(spec)),
            beside_playbook=f"apt-get install -y {_DATABASE_PACKAGES}",
        )
    yield SetupStep(
        "Start, and see",
        (
            "systemctl enable --now slurmctld",
            *(f"ssh {each} systemctl enable --now slurmctld" for each in controllers(spec, parameters)[1:]),
            f"clush -w {nodes} systemctl enable --now slurmd",
            "sinfo",
            f"srun -N{len(parameters.nodes)} hostname",
        ),
    )


def _key(nodes: str) -> Iterator[str]:
    yield (
        "(umask 077; head -c 1024 /dev/urandom > /etc/munge/munge.key.new && "
        "chown munge: /etc/munge/munge.key.new && mv /etc/munge/munge.key.new /etc/munge/munge.key)"
    )
    yield f"clush -w {nodes} --copy /etc/munge/munge.key --dest /etc/munge/munge.key"
    yield f"clush -w {nodes} 'chown munge: /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key'"
    yield "systemctl restart munge"
    yield f"clush -w {nodes} systemctl restart munge"
    yield f"clush -w {nodes} 'munge -n | unmunge | grep STATUS'"


def _directories(spec: GridSpec, parameters: SlurmParameters, nodes: str) -> Iterator[str]:
    yield f"install -d -o {USER} -g {USER} -m 0755 {state_location(spec, parameters)} {LOGS}"
    yield f"clush -w {nodes} install -d -m 0755 {SPOOL} {LOGS}"
    yield f"clush -w {nodes} install -d -m 0755 {HEALTH.path.parent}"
    yield f"clush -w {nodes} --copy slurm/health slurm/health.pyz --dest {HEALTH.path.parent}/"
    yield f"clush -w {nodes} chmod 0755 {HEALTH_STARTER} {HEALTH.path}"
    for path in PROGRAMS if spec.powered_nodes() else ():
        yield f"install -D -m 0755 slurm/power {path}"
    yield f"cp slurm/slurm.conf slurm/cgroup.conf {DIRECTORY}/"
    yield f"clush -w {nodes} --copy slurm/slurm.conf slurm/cgroup.conf --dest {DIRECTORY}/"


def _database(spec: GridSpec) -> Iterator[str]:
    """MariaDB knows the account of slurmdbd by the socket that it connects through: there is no password."""
    yield f"install -o {USER} -g {USER} -m 0600 slurm/slurmdbd.conf {DIRECTORY}/slurmdbd.conf"
    yield "mysql -e 'CREATE DATABASE IF NOT EXISTS slurm_acct_db'"
    yield f"mysql -e 'CREATE USER IF NOT EXISTS {USER}@localhost IDENTIFIED VIA unix_socket'"
    yield f"mysql -e 'GRANT ALL ON slurm_acct_db.* TO {USER}@localhost'"
    yield "systemctl enable --now slurmdbd"
    yield f"sacctmgr -i add cluster {spec.name}"


_NEEDED = {"freezer", "memory"}
"""Controllers of v1 that Slurm follows processes and limits memory with; a lab does not bind cores."""
_UP = ("idle", "mixed", "allocated", "completing")
"""States of a node that serves, in words of sinfo; one that does not answer has a `*` behind."""

_LAST_LINES = 5
"""Of a log, in which the reason stands why a daemon ended."""


class SlurmController:
    """slurmctld on the controller, and on the first compute node where a backup is wanted."""

    name = "slurmctld"
    patience_s = 40.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write the configuration, and make the directories of its state."""
        parameters = lab_parameters(lab)
        files = slurm_configuration(lab.spec, parameters).files
        state = state_location(lab.spec, parameters)

        def put(node: ServiceNode) -> None:
            _write(node, files)
            make_directory(node, LOGS, state, owner=USER)
            for path in PROGRAMS if lab.spec.powered_nodes() else ():
                node.write(str(path), program(), mode=0o755)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it, on the controller before on the backup."""
        for name in nodes:
            if not runs(lab.nodes[name], "slurmctld"):
                start_daemon(lab.nodes[name], ["/usr/sbin/slurmctld"])

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers, or a backup runs."""
        if not runs(lab.nodes[node], "slurmctld"):
            return f"slurmctld does not run: {_last_error(lab.nodes[node], 'slurmctld')}"
        if node != self.nodes[0]:
            return None
        answer = lab.nodes[node].run(["scontrol", "ping"], timeout_s=4.0)
        return None if b"is UP" in answer.stdout else "slurmctld does not answer"


class SlurmNodes:
    """slurmd on every compute node."""

    name = "slurmd"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write the configuration, and make the directory of running jobs."""
        files = slurm_configuration(lab.spec, lab_parameters(lab)).files
        health = json.dumps(lab.health, indent=2) + "\n"

        def put(node: ServiceNode) -> None:
            _write(node, files)
            make_directory(node, LOGS, owner=USER)
            make_directory(node, SPOOL)
            _write_health_check(node, health)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start slurmd."""
        powered = lab.spec.powered_nodes()

        def start(node: ServiceNode) -> None:
            # Slurm takes a node for powered on when it has booted since; the kernel of a lab has not.
            booted = ["-b"] if node.name in powered else []
            if not runs(node, "slurmd"):
                start_daemon(node, ["/usr/sbin/slurmd", *booted])

        run_on_nodes(lab, nodes, start)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """The controller has it as a node that takes jobs."""
        here = lab.nodes[node]
        if not runs(here, "slurmd"):
            return f"slurmd does not run: {_last_error(here, 'slurmd')}"
        controller = lab.nodes.get(lab.controller)
        if controller is None:
            return None  # It registers when the controller is powered on.
        if not runs(controller, "slurmctld"):
            return f"slurmctld does not run on {controller.name}"
        answer = controller.run(["sinfo", "-h", "-N", "-n", node, "-o", "%T %E"], timeout_s=4.0)
        state, _, reason = answer.stdout.decode(errors="replace").partition("\n")[0].partition(" ")
        if state in _UP:
            return None
        return f"Slurm says {state or 'nothing'} of it" + ("" if reason in ("", "none") else f": {reason}")


def lab_parameters(lab: SchedulerNodes) -> SlurmParameters:
    """The parameters of a lab's Slurm; a node is asked for what the spec leaves open."""
    spec = lab.spec
    asked = next(iter(lab.nodes.values()))
    machine = NodeHardware(name="", cores_per_socket=1, memory_bytes=1)
    if any(group.cores is None or group.memory is None for group in spec.nodes.values()):
        machine = parse_slurmd_hardware(call(asked, ["/usr/sbin/slurmd", "-C"]).decode(errors="replace"))
    machines = GridMachines(
        controller=lab.controller,
        nodes=hardware_of_nodes(spec, dict.fromkeys(spec.nodes, machine), share_one_machine=True),
        cgroups=_cgroups(lab),
        swap_limits=_limits_swap(lab, asked),
        systemd=False,
        share_one_machine=True,
    )
    release = parse_release(call(asked, ["/usr/sbin/slurmd", "-V"]).decode(errors="replace"))
    return replace(slurm_parameters(spec, machines, release), state=lab.state)


def _cgroups(lab: SchedulerNodes) -> CgroupVersion:
    if lab.cgroups.kind == "v1":
        return CgroupVersion.V1 if set(lab.cgroups.controllers) >= _NEEDED else CgroupVersion.NONE
    return CgroupVersion.V2 if lab.cgroups.kind == "v2" else CgroupVersion.NONE


def _limits_swap(lab: SchedulerNodes, node: ServiceNode) -> bool:
    """Whether the kernel accounts for swap: not all do without an option when they boot."""
    directory = lab.cgroups.mountpoint + ("/memory" if lab.cgroups.kind == "v1" else "")
    return bool(
        node.run(
            ["find", directory, "-name", "memory.memsw.limit_in_bytes", "-o", "-name", "memory.swap.max"]
        ).stdout.strip()
    )


def _write(node: ServiceNode, files: Mapping[str, str]) -> None:
    """All but the configuration of slurmdbd, which is for slurmdbd alone."""
    for name, text in files.items():
        if name != DATABASE_CONFIGURATION:
            node.write(str(DIRECTORY / name), text)


def _write_health_check(node: ServiceNode, configuration: str) -> None:
    node.write(str(CONFIGURATION), configuration)
    node.write(str(HEALTH.path), HEALTH.archive(), mode=0o755)
    node.write(str(HEALTH_STARTER), HEALTH_STARTER_TEXT, mode=0o755)


def _last_error(node: ServiceNode, daemon: str) -> str:
    """Why it ended, where it said so at last; else where its log is."""
    log = str(LOGS / f"{daemon}.log")
    try:
        lines = node.read(log).decode(errors="replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return "it has written no log"
    return next((line for line in reversed(lines) if "fatal:" in line), f"its log is {log}")


_DATA = PurePosixPath("/var/lib/slurm/mariadb")
"""Where MariaDB keeps its tables. It runs as the user of slurmdbd, so that none of its own is needed."""
_SOCKET = PurePosixPath("/run/mysqld/mysqld.sock")
"""Where slurmdbd looks for a database on its own machine, as Debian builds libmariadb."""
_SERVER = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={_DATA}", "--skip-networking"),
    *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"),
)
_STATEMENTS = PurePosixPath("/usr/share/mysql")
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_BEFORE_TABLES = f"create database mysql;\nuse mysql;\nset @auth_root_socket='{USER}';\n".encode()
"""As in mariadb-install-db(1) with --auth-root-authentication-method=socket."""


class MariaDb:
    """The database server, reached by its socket alone."""

    name = "mariadbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Make its tables where there are none, with the one account slurm, known by the socket."""
        for node in (lab.nodes[name] for name in nodes):
            make_directory(node, _SOCKET.parent, _DATA, owner=USER)
            if not node.run(["test", "-d", f"{_DATA}/mysql"]).status:
                continue
            # Not mariadb-install-db, which needs most of what belongs to a whole server.
            statements = b"".join([_BEFORE_TABLES, *(node.read(str(_STATEMENTS / name)) for name in _TABLES)])
            call(node, [*_SERVER, "--bootstrap"], stdin=statements, timeout_s=60.0)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it as the user of slurmdbd."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "mariadbd"):
                words = [f"--socket={_SOCKET}", f"--log-error={LOGS}/mariadbd.log"]
                # It has no way to put itself into the background.
                start_daemon(node, ["sh", "-c", '"$@" &', "sh", *_SERVER, *words])
            # slurmdbd finds out only every 5 s, and slurmctld is next.
            wait_for(partial(self.lacking, lab, node.name))

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """Its socket is there once it takes connections."""
        here = lab.nodes[node]
        if not runs(here, "mariadbd"):
            return f"mariadbd does not run: its log is {LOGS}/mariadbd.log"
        return None if not here.run(["test", "-S", str(_SOCKET)]).status else "mariadbd has no socket yet"


class SlurmDatabase:
    """slurmdbd, which knows the cluster before slurmctld asks for it."""

    name = "slurmdbd"
    patience_s = 60.0

    def __init__(self, controller: str) -> None:
        self.nodes = [controller]

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write its configuration, for itself alone; slurm.conf is the controller's service's to write."""
        files = slurm_configuration(lab.spec, lab_parameters(lab)).files
        for node in (lab.nodes[name] for name in nodes):
            node.write(
                str(DIRECTORY / DATABASE_CONFIGURATION), files[DATABASE_CONFIGURATION], mode=0o600, owner=USER
            )
            make_directory(node, LOGS, owner=USER)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it; it waits for its database by itself."""
        for node in (lab.nodes[name] for name in nodes):
            if not runs(node, "slurmdbd"):
                start_daemon(node, ["/usr/sbin/slurmdbd"])
            wait_for(partial(_unavailable_reason, node))
            # It fails where the cluster is known.
            node.run(["sacctmgr", "-i", "-Q", "add", "cluster", lab.spec.name], timeout_s=10.0)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers."""
        here = lab.nodes[node]
        if not runs(here, "slurmdbd"):
            return f"slurmdbd does not run: its log is {LOGS}/slurmdbd.log"
        return _unavailable_reason(here)


def _unavailable_reason(node: ServiceNode) -> str | None:
    answer = node.run(["sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster"], timeout_s=4.0)
    said = (answer.stderr or answer.stdout).decode(errors="replace").strip()
    return None if answer.status == 0 and "rror" not in said else f"slurmdbd does not answer: {said[-200:]}"
