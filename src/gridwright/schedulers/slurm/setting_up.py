"""Sets up Slurm on the machines of a grid: its files, what its role has to know, and the steps by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gridwright.node_programs.one_file import HEALTH, HEALTH_STARTER, HEALTH_STARTER_TEXT
from gridwright.node_programs.power import DIRECTORY as PROGRAM_DIRECTORY
from gridwright.node_programs.power import PROGRAMS, program
from gridwright.schedulers.machines import GridMachines
from gridwright.schedulers.set_up import SchedulerSetup, SetupStep
from gridwright.schedulers.slurm.configuration import (
    DIRECTORY,
    LOGS,
    OLDEST,
    SPOOL,
    USER,
    SlurmParameters,
    parse_release,
    slurm_configuration,
    slurm_parameters,
    state_location,
)
from gridwright.schedulers.slurm.section import section_of
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
