"""Makes `slurm.conf` and its companions from a grid spec and the hardware of its nodes; does no I/O.

Every line that is not Slurm's default says why it is there; the sources are slurm.conf(5), cgroup.conf(5) and
slurmdbd.conf(5) of the releases in RELEASES, and what was measured in a lab with 22.05.8.

Writes the queues of a grid spec as partitions of Slurm.

Slurm's power saving: nodes that are powered on for jobs that wait (slurm.conf(5), power_save guide).

A line of `slurm.conf` and its companions, and why it is there.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath

from gridwright.errors import Finding, environment_error, input_error
from gridwright.node_programs.one_file import HEALTH_STARTER
from gridwright.node_programs.power import RESUME, RESUME_FAILED, SUSPEND
from gridwright.schedulers.machines import CgroupVersion, GridMachines, NodeHardware
from gridwright.schedulers.slurm.section import section_of
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import Queue

Release = tuple[int, int]
"""Year and month of a release of Slurm, such as (22, 5)."""

OLDEST: Release = (22, 5)
NEWEST: Release = (24, 11)
RELEASES: tuple[Release, ...] = (OLDEST, (23, 2), (23, 11), (24, 5), NEWEST)
"""Releases that the configuration is known to be valid for; Debian 12 has the first, Ubuntu 24.04 23.11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long Slurm waits before it acts, in seconds."""

    node_down: int
    """SlurmdTimeout: a node that has not answered for so long is down, and its jobs start elsewhere."""
    message: int
    """MessageTimeout: how long one message may take. Below 4, healthy nodes go down when slurmctld starts
    anew (measured with 22.05.8); it delays the discovery of a dead node as much as SlurmdTimeout does."""
    credential: int
    """cred_expire: a job of a node that failed starts elsewhere no sooner than so long after."""
    controller: int
    """SlurmctldTimeout: a backup controller takes over after so long."""
    inactive: int
    """InactiveLimit: the allocation of an srun or salloc that is gone ends after so long. By default never:
    a head node that crashes keeps nodes for good."""
    kill: int
    """KillWait: between SIGTERM and SIGKILL for a job over its time, to leave its directories clean."""
    health: int
    """HealthCheckInterval: a node that has lost its mounts takes jobs for no longer."""
    resume: int
    """ResumeTimeout: how long a node that is powered on may take to register."""
    suspend: int
    """SuspendTimeout: how long it takes at most until one that is powered off is gone."""


GRID = Timing(
    node_down=60,
    message=10,
    credential=60,
    controller=30,
    inactive=300,
    kill=30,
    health=60,
    resume=2400,
    suspend=120,
)
"""For real networks: a switch that restarts or a swapping node must not cost jobs. A machine of a cloud that
installs all that it needs has 40 minutes: its boot is tried three times in that."""
LAB = Timing(
    node_down=8,
    message=5,
    credential=10,
    controller=10,
    inactive=30,
    kill=5,
    health=10,
    resume=90,
    suspend=5,
)
"""For nodes that share one machine: measured to find a node that is powered off in 17 s, and to run its
jobs again in 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmParameters(GridMachines):
    """What the configuration of a Slurm depends on, beside the grid spec."""

    state: Path
    """The grid's state directory, the same on all nodes."""
    release: Release = OLDEST

    @property
    def backup(self) -> str:
        """The node that a backup controller runs on."""
        return self.nodes[0].name

    @property
    def timing(self) -> Timing:
        """How quickly it notices failures."""
        return LAB if self.share_one_machine else GRID

    @property
    def health_interval(self) -> int:
        """HealthCheckInterval, in seconds: a machine that all nodes share sees to one of them a second."""
        return max(self.timing.health, len(self.nodes)) if self.share_one_machine else self.timing.health


def slurm_parameters(spec: GridSpec, machines: GridMachines, release: Release) -> SlurmParameters:
    """The parameters of a grid's Slurm on these machines."""
    values = {field.name: getattr(machines, field.name) for field in fields(GridMachines)}
    return SlurmParameters(**values, state=state_directory(spec), release=release)


def parse_release(text: str) -> Release:
    """A release as `22.05`, `23.11.4`, or as `slurmctld -V` prints it.

    Raises GridwrightError (status INPUT) for one that no configuration is known for.
    """
    found = re.search(r"\b(2\d)\.(0?\d|1[0-2])\b", text)
    requested = (int(found[1]), int(found[2])) if found else None
    if requested is None or not OLDEST <= requested <= NEWEST:
        known = ", ".join(f"{year}.{month:02}" for year, month in RELEASES)
        raise input_error(
            f"{text.strip()[:60]!r} is no release of Slurm that Gridwright writes a configuration for",
            remedy=f"write one of {known}",
        )
    return requested


MIB = 1 << 20


def parse_slurmd_hardware(text: str) -> NodeHardware:
    """What `slurmd -C` prints of the node that it runs on. Raises GridwrightError (status ENVIRONMENT)."""
    found = dict(re.findall(r"\b(\w+)=(\S+)", text))
    try:
        boards, per_board = int(found.get("Boards", 1)), found.get("SocketsPerBoard")
        facts = NodeHardware(
            name=found["NodeName"],
            sockets=boards * int(per_board) if per_board else int(found.get("Sockets", 1)),
            cores_per_socket=int(found["CoresPerSocket"]),
            threads_per_core=int(found["ThreadsPerCore"]),
            memory_bytes=int(found["RealMemory"]) * MIB,
        )
    except (KeyError, ValueError) as error:
        raise environment_error(
            f"slurmd -C does not describe a node: {text.strip()[:200]!r}",
            remedy="See whether slurmd of releases 22.05 to 24.11 is installed",
        ) from error
    if min(facts.sockets, facts.cores_per_socket, facts.threads_per_core, facts.memory_bytes) < 1:
        raise environment_error(
            f"slurmd -C describes a node without cores or memory: {text.strip()[:200]!r}",
            remedy="run slurmd -C on that node by hand, and see whether /proc and /sys are mounted there",
        )
    return facts


def node_line(node: NodeHardware, names: Iterable[str], declared: bool, state: str = "UNKNOWN") -> str:
    """The line of `slurm.conf` for nodes that are like `node`.

    CPUs is the number of cores where a core has several threads, too: Slurm then gives out cores, never
    threads (slurm.conf(5), CPUs). Cores that jobs must not use are set aside by CoreSpecCount. `declared`:
    what is said here counts, whatever slurmd finds.
    """
    parts = [
        f"NodeName={fold_hosts(names)}",
        f"CPUs={node.all_cores}",
        f"Sockets={node.sockets}",
        f"CoresPerSocket={node.cores_per_socket}",
        f"ThreadsPerCore={node.threads_per_core}",
        f"RealMemory={node.memory_bytes // MIB}",
    ]
    if not declared and node.usable_cores < node.all_cores:
        parts.append(f"CoreSpecCount={node.all_cores - node.usable_cores}")
    return " ".join([*parts, f"State={state}"])


@dataclass(frozen=True, slots=True)
class Setting:
    """A line `name=value`, and above it why."""

    name: str
    value: object
    why: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationSection:
    """Settings under a heading."""

    heading: str
    settings: Sequence[Setting]


POWERED_STATE = "CLOUD"
"""Of nodes that are powered: they are off until they are wanted, and nobody waits for them to register."""


def power_section(spec: GridSpec, parameters: SlurmParameters) -> Iterator[ConfigurationSection]:
    """The settings of power saving; none where all nodes are always on."""
    powered = spec.powered_nodes()
    if not powered:
        return
    timing = parameters.timing
    settings = [
        Setting("ResumeProgram", RESUME, "Leaves a line for what has machines powered on and off."),
        Setting("SuspendProgram", SUSPEND),
        Setting("ResumeFailProgram", RESUME_FAILED),
        Setting(
            "ResumeTimeout",
            timing.resume,
            "A node that has not registered so many seconds after it was powered on is down, and its jobs "
            "start elsewhere.",
        ),
        Setting(
            "SuspendTimeout",
            timing.suspend,
            "A node is powered on again no sooner than so many seconds after it was powered off.",
        ),
        Setting("ResumeRate", 0, "All at once: who powers them on asks for many machines in one call."),
        Setting("SuspendRate", 0),
    ]
    if static := [node.name for node in parameters.nodes if node.name not in powered]:
        settings.append(Setting("SuspendExcNodes", fold_hosts(static), "These are always on."))
    settings += [
        Setting(
            "SlurmctldParameters",
            "cloud_dns",
            "Names of nodes resolve whether they are on or off: addresses are theirs for good.",
        ),
        Setting("PrivateData", "cloud", "Whatever it sounds like: users see nodes that are off."),
    ]
    yield ConfigurationSection("Power saving: queues below say when idle nodes go", settings)


def suspend_time(spec: GridSpec, queue: Queue) -> str | None:
    """SuspendTime of a partition; None where all of its nodes are always on. The spec has one for a queue."""
    groups = queue.nodes if queue.nodes is not None else list(spec.nodes)
    idle = [spec.nodes[name].idle_s for name in groups if spec.nodes[name].powered_names(name)]
    return str(math.ceil(max(idle))) if idle else None


@dataclass(frozen=True, slots=True)
class CoreLimit:
    """How a partition is kept to a number of cores: some nodes, and on each no more than `per_node` cores."""

    nodes: tuple[str, ...]
    per_node: int
    cores: int
    """What its jobs can use at the same time: never more than was allowed."""


def core_limit(nodes: Sequence[NodeHardware], allowed: int) -> CoreLimit:
    """The nodes and the cores of each that come nearest to `allowed` cores in all, and do not exceed it.

    Slurm without its database has no limit for all jobs of a partition (GrpTRES is of a QOS, and those are
    kept in the database); MaxCPUsPerNode limits what all jobs of a partition use of each node
    (slurm.conf(5)). Among equally near choices, the one with most cores on a node is taken: the widest
    job fits.
    """
    best = CoreLimit((), 0, 0)
    widest = max(node.usable_cores for node in nodes)
    for per_node in range(min(allowed, widest), 0, -1):
        names, total = [], 0
        for node in nodes:
            cores = min(per_node, node.usable_cores)
            if total + cores <= allowed:
                names.append(node.name)
                total += cores
        if total > best.cores:
            best = CoreLimit(tuple(names), per_node, total)
        if best.cores == allowed:
            break
    return best


def default_memory_mib(nodes: Sequence[NodeHardware]) -> int:
    """The smallest share of memory that a core has, over all these nodes, in MiB."""
    return max(1, min(node.memory_bytes // max(1, node.usable_cores) // MIB for node in nodes))


def partition_lines(spec: GridSpec, nodes: Sequence[NodeHardware]) -> Iterable[str]:
    """One line of `slurm.conf` for each queue; the first is the default.

    Where all nodes of a queue have more memory for each core than the grid's narrowest, its jobs get
    more by default.
    """
    for number, (name, queue) in enumerate(spec.scheduler.queues.items()):
        own = nodes_of(spec, queue, nodes)
        on, per_node = [node.name for node in own], None
        if queue.cores is not None and queue.cores < _cores(own):
            limit = core_limit(own, queue.cores)
            on, per_node = list(limit.nodes), limit.per_node
        parts = [
            f"PartitionName={name}",
            f"Nodes={fold_hosts(on)}",
            f"Default={'YES' if number == 0 else 'NO'}",
            f"PriorityTier={queue.priority}",
            f"MaxTime={'INFINITE' if queue.time is None else math.ceil(queue.time / 60)}",
        ]
        if per_node is not None:
            parts.append(f"MaxCPUsPerNode={per_node}")
        if default_memory_mib(own) > default_memory_mib(nodes):
            parts.append(f"DefMemPerCPU={default_memory_mib(own)}")
        if (idle := suspend_time(spec, queue)) is not None:
            parts.append(f"SuspendTime={idle}")
        yield " ".join([*parts, "State=UP"])


def nodes_of(spec: GridSpec, queue: Queue, nodes: Sequence[NodeHardware]) -> list[NodeHardware]:
    """The nodes of the groups that a queue is for; all where it names none."""
    if queue.nodes is None:
        return list(nodes)
    names = {name for group in queue.nodes for name in spec.nodes[group].node_names(group)}
    return [node for node in nodes if node.name in names]


def _cores(nodes: Sequence[NodeHardware]) -> int:
    return sum(node.usable_cores for node in nodes)


def queue_findings(spec: GridSpec, nodes: Sequence[NodeHardware]) -> list[Finding]:
    """What of the queues Slurm cannot keep exactly."""
    findings = []
    for name, queue in spec.scheduler.queues.items():
        own = nodes_of(spec, queue, nodes)
        if queue.cores is None or queue.cores >= _cores(own):
            continue
        limit = core_limit(own, queue.cores)
        if limit.cores == queue.cores and len(limit.nodes) == len(own):
            continue
        less = (
            ""
            if limit.cores == queue.cores
            else f", {limit.cores} of the {queue.cores} cores that it may use"
        )
        findings.append(
            Finding(
                "warning",
                "queue-on-fewer-nodes",
                f"queue {name} gets {limit.per_node} cores on each of {fold_hosts(limit.nodes)}{less}: "
                "Slurm without its database limits a queue by nodes only",
                "Write cores as a multiple of the number of nodes; or keep accounting in slurmdbd, and limit "
                f"the partition by a QOS: sacctmgr add qos {name} set GrpTRES=cpu={queue.cores}",
            )
        )
    return findings


DIRECTORY = PurePosixPath("/etc/slurm")
"""Where Slurm looks for its configuration."""
STATE = PurePosixPath("/var/lib/slurm/slurmctld")
"""Where slurmctld keeps its state, without a backup controller."""
SPOOL = PurePosixPath("/var/lib/slurm/slurmd")
"""Where slurmd keeps the scripts of jobs that run on its node."""
LOGS = PurePosixPath("/var/log/slurm")
DATABASE_CONFIGURATION = "slurmdbd.conf"
"""In the same directory, on the controller only."""
USER = "slurm"
"""The account of slurmctld and slurmdbd."""
MOST_JOBS = 200_000
MOST_ELEMENTS = 100_001


@dataclass(frozen=True, slots=True)
class SlurmConfiguration:
    """Files by the name they have in /etc/slurm, and what the user should know of them."""

    files: Mapping[str, str]
    findings: Sequence[Finding]


def slurm_configuration(spec: GridSpec, parameters: SlurmParameters) -> SlurmConfiguration:
    """The files of a Slurm for this grid. The same arguments give the same bytes."""
    files = {
        "slurm.conf": _text("slurm.conf", spec, _sections(spec, parameters), _node_lines(spec, parameters)),
        "cgroup.conf": _text("cgroup.conf", spec, [_cgroup(parameters)]),
    }
    if section_of(spec).has_database:
        files[DATABASE_CONFIGURATION] = _text(DATABASE_CONFIGURATION, spec, [_database(parameters)])
    return SlurmConfiguration(files, queue_findings(spec, parameters.nodes))


def state_location(spec: GridSpec, parameters: SlurmParameters) -> PurePosixPath:
    """Where slurmctld keeps its state: on the shared file system where a backup controller must find it."""
    return PurePosixPath(parameters.state) / "slurmctld" if section_of(spec).backup_controller else STATE


def completed_jobs(spec: GridSpec, parameters: SlurmParameters) -> PurePosixPath:
    """The file with a line for each job that ended, which `sacct -c` reads."""
    shared = section_of(spec).backup_controller
    return (state_location(spec, parameters) if shared else LOGS) / "jobcomp.log"


def _text(
    name: str, spec: GridSpec, sections: Iterable[ConfigurationSection], lines: Iterable[str] = ()
) -> str:
    parts = [
        f"# {name} of grid {spec.name}, written by Gridwright from its grid spec.",
        "# It may be edited; render or set up again from the grid spec, and it is written anew.",
    ]
    if name != DATABASE_CONFIGURATION:
        parts.append("# It must be the same on all nodes.")
    for section in sections:
        parts += ["", f"# {section.heading}"]
        for setting in section.settings:
            parts += [f"# {each}" for each in textwrap.wrap(setting.why, 100)]
            parts.append(f"{setting.name}={setting.value}")
    return "\n".join([*parts, *lines]) + "\n"


def _sections(spec: GridSpec, parameters: SlurmParameters) -> list[ConfigurationSection]:
    return [
        _identity(spec, parameters),
        _files(spec, parameters),
        _time_outs(spec, parameters),
        _health(parameters),
        *power_section(spec, parameters),
        _scheduling(parameters),
        _processes(parameters),
        _accounting(spec, parameters),
    ]


def _identity(spec: GridSpec, parameters: SlurmParameters) -> ConfigurationSection:
    settings = [Setting("ClusterName", spec.name), Setting("SlurmctldHost", parameters.controller)]
    if section_of(spec).backup_controller:
        settings.append(
            Setting("SlurmctldHost", parameters.backup, "Takes over when the first does not answer.")
        )
    settings += [
        Setting("SlurmUser", USER),
        Setting("AuthType", "auth/munge"),
        Setting(
            "AuthInfo",
            f"cred_expire={parameters.timing.credential}",
            "The job of a node that failed starts elsewhere no sooner than so many seconds after: until "
            "then the credential of its first start is valid. By default 120.",
        ),
        Setting("SlurmctldPort", 6817),
        Setting("SlurmdPort", 6818),
    ]
    return ConfigurationSection("Who is who", settings)


def _files(spec: GridSpec, parameters: SlurmParameters) -> ConfigurationSection:
    shared = section_of(spec).backup_controller
    settings = [
        Setting(
            "StateSaveLocation",
            state_location(spec, parameters),
            "Queued jobs: on the shared file system, where the backup controller finds them."
            if shared
            else "Queued jobs: survive a restart of slurmctld. Back it up with the controller.",
        ),
        Setting("SlurmdSpoolDir", SPOOL),
        Setting("SlurmctldLogFile", LOGS / "slurmctld.log"),
        Setting("SlurmdLogFile", LOGS / "slurmd.log"),
        Setting("SlurmctldPidFile", "/run/slurmctld.pid"),
        Setting("SlurmdPidFile", "/run/slurmd.pid"),
    ]
    if parameters.share_one_machine:
        settings.append(Setting("MailProg", "/bin/true", "Nodes of a lab have no mail."))
    return ConfigurationSection("Files", settings)


def _time_outs(spec: GridSpec, parameters: SlurmParameters) -> ConfigurationSection:
    timing = parameters.timing
    settings = [
        Setting(
            "SlurmdTimeout",
            timing.node_down,
            "A node that has not answered for so many seconds is down, and its jobs start elsewhere.",
        ),
        Setting(
            "MessageTimeout",
            timing.message,
            "A dead node is found no sooner than this allows. Below 4, healthy nodes go down when "
            "slurmctld starts anew.",
        ),
        Setting("ReturnToService", 2, "A node that answers again gets jobs again, without an administrator."),
        Setting(
            "InactiveLimit",
            timing.inactive,
            "The allocation of an srun or salloc that is gone, with its node for instance, ends after so "
            "many seconds.",
        ),
        Setting(
            "KillWait",
            timing.kill,
            "A job over its time has so many seconds to remove its work directories.",
        ),
        Setting(
            "UnkillableStepTimeout",
            max(180, 5 * timing.message),
            "Processes that wait for a file system cannot be killed: a server that fails over takes "
            "minutes, and must not take the nodes out of service.",
        ),
    ]
    if section_of(spec).backup_controller:
        settings.append(
            Setting("SlurmctldTimeout", timing.controller, "The backup takes over after so many seconds.")
        )
    return ConfigurationSection("Time-outs, in seconds", settings)


def _health(parameters: SlurmParameters) -> ConfigurationSection:
    return ConfigurationSection(
        "Health of nodes",
        [
            Setting(
                "HealthCheckProgram",
                HEALTH_STARTER,
                "A node that lacks a mount of /etc/gridwright/health.json drains itself, and takes jobs "
                "again when it is back. Without this file Slurm may let no node register.",
            ),
            Setting("HealthCheckInterval", parameters.health_interval),
            Setting(
                "HealthCheckNodeState",
                "ANY,CYCLE",
                "Drained nodes, too, as they come back by it; one after the other, and not all at once.",
            ),
        ],
    )


def _scheduling(parameters: SlurmParameters) -> ConfigurationSection:
    return ConfigurationSection(
        "Scheduling",
        [
            Setting("SchedulerType", "sched/backfill"),
            Setting(
                "SchedulerParameters",
                "batch_sched_delay=0,sched_min_interval=0,default_queue_depth=1000,"
                "bf_interval=5,bf_max_job_test=1000,bf_continue",
                "A job starts as soon as it fits: no pause after a submission, a backfill every 5 s, and "
                "many queued jobs looked at.",
            ),
            Setting("SelectType", "select/cons_tres"),
            Setting(
                "SelectTypeParameters",
                "CR_Core_Memory,CR_LLN",
                "Jobs share nodes. What is given out is cores (a CPU below is a physical core, never a "
                "thread of one) and memory. The next job goes to the least loaded node: jobs wait for "
                "I/O, and each node brings a network and a client of its own.",
            ),
            Setting(
                "PriorityType",
                "priority/basic",
                "Within a queue, first come, first served; queues: see the end.",
            ),
            Setting(
                "DefMemPerCPU",
                default_memory_mib(parameters.nodes),
                "A job that names no memory gets, for each core, the share of a core in MiB.",
            ),
            Setting("EnforcePartLimits", "ALL", "A job that can never run is refused when it is submitted."),
            Setting(
                "JobRequeue", 1, "The job of a node that fails starts again, unless it says --no-requeue."
            ),
            Setting("MaxJobCount", MOST_JOBS, "Room for workloads of many small jobs."),
            Setting("MaxArraySize", MOST_ELEMENTS),
            Setting("MinJobAge", 600, "Ended jobs can be asked for so many seconds."),
            Setting(
                "PropagateResourceLimits",
                "NONE",
                "Jobs have the limits of their node, not those of the shell that submitted them.",
            ),
            Setting("MpiDefault", "none", "Jobs that use MPI say so: srun --mpi."),
        ],
    )


def _processes(parameters: SlurmParameters) -> ConfigurationSection:
    if parameters.cgroups is CgroupVersion.NONE:
        settings = [
            Setting("ProctrackType", "proctrack/linuxproc", "The nodes have no control groups."),
            Setting("JobAcctGatherType", "jobacct_gather/linux"),
            Setting(
                "JobAcctGatherFrequency",
                "task=2",
                "Every 2 s a job's memory is looked at, and a job over its own is ended.",
            ),
            Setting("JobAcctGatherParams", "OverMemoryKill"),
        ]
    else:
        settings = [
            Setting("ProctrackType", "proctrack/cgroup", "No process of a job outlives it."),
            Setting(
                "TaskPlugin",
                "task/cgroup" if parameters.share_one_machine else "task/cgroup,task/affinity",
                "The kernel keeps jobs to their memory: see cgroup.conf. No binding to cores: nodes of a "
                "lab share those of one machine."
                if parameters.share_one_machine
                else "The kernel keeps jobs to their cores and memory: see cgroup.conf.",
            ),
        ]
    if parameters.share_one_machine:
        settings.append(
            Setting("SlurmdParameters", "config_overrides", "Nodes have the cores and memory written below.")
        )
    return ConfigurationSection("Processes of jobs", settings)


def _accounting(spec: GridSpec, parameters: SlurmParameters) -> ConfigurationSection:
    if section_of(spec).has_database:
        settings = [
            Setting("AccountingStorageType", "accounting_storage/slurmdbd"),
            Setting("AccountingStorageHost", parameters.controller),
        ]
        if parameters.cgroups is not CgroupVersion.NONE:
            settings += [
                Setting("JobAcctGatherType", "jobacct_gather/cgroup"),
                Setting("JobAcctGatherFrequency", "task=30"),
            ]
        return ConfigurationSection("Accounting: slurmdbd, see slurmdbd.conf", settings)
    why = "A line for each job that ended; read it with sacct -c."
    return ConfigurationSection(
        "Accounting",
        [
            Setting("JobCompType", "jobcomp/filetxt", why),
            Setting("JobCompLoc", completed_jobs(spec, parameters)),
        ],
    )


def _node_lines(spec: GridSpec, parameters: SlurmParameters) -> Iterator[str]:
    yield ""
    yield "# Nodes: CPUs are physical cores, RealMemory is what jobs may use, in MiB."
    powered = spec.powered_nodes()
    alike: dict[tuple[NodeHardware, str], list[str]] = {}
    for node in parameters.nodes:
        state = POWERED_STATE if node.name in powered else "UNKNOWN"
        alike.setdefault((replace(node, name=""), state), []).append(node.name)
    for (facts, state), names in alike.items():
        yield node_line(facts, names, parameters.share_one_machine, state)
    yield ""
    yield "# Queues: jobs of the one with the higher PriorityTier start first. MaxTime in minutes."
    yield from partition_lines(spec, parameters.nodes)


def _cgroup(parameters: SlurmParameters) -> ConfigurationSection:
    if parameters.cgroups is CgroupVersion.NONE:
        if parameters.release >= (24, 5):
            return ConfigurationSection(
                "The nodes have no control groups", [Setting("CgroupPlugin", "disabled")]
            )
        why = "A name must be here, or slurmd of this release does not start; nothing of it is used."
        return ConfigurationSection(
            "The nodes have no control groups", [Setting("CgroupPlugin", "cgroup/v1", why)]
        )
    settings = [
        Setting("CgroupPlugin", f"cgroup/{parameters.cgroups}"),
        Setting(
            "ConstrainRAMSpace", "yes", "A job over its memory is ended by the kernel: state OUT_OF_MEMORY."
        ),
    ]
    if parameters.swap_limits:
        settings += [
            Setting("ConstrainSwapSpace", "yes", "It must not swap either: all jobs would wait with it."),
            Setting("AllowedSwapSpace", 0),
        ]
    if parameters.share_one_machine:
        why = "Nodes of a lab share the cores of one machine."
        settings.append(Setting("ConstrainCores", "no", why))
    else:
        settings.append(Setting("ConstrainCores", "yes"))
    if parameters.cgroups is CgroupVersion.V2 and not parameters.systemd:
        settings.append(Setting("IgnoreSystemd", "yes", "No systemd runs on the nodes."))
        # Releases before 23.02 have this under another name: cgroup.conf(5) of 22.05, CgroupAutomount.
        name = "EnableControllers" if parameters.release >= (23, 2) else "CgroupAutomount"
        settings.append(Setting(name, "yes"))
    return ConfigurationSection("What keeps jobs to what they asked for", settings)


def _database(parameters: SlurmParameters) -> ConfigurationSection:
    return ConfigurationSection(
        "On the controller only; owned by slurm, mode 0600",
        [
            Setting("AuthType", "auth/munge"),
            Setting("DbdHost", parameters.controller),
            Setting("SlurmUser", USER),
            Setting("LogFile", LOGS / "slurmdbd.log"),
            Setting("PidFile", "/run/slurmdbd.pid"),
            Setting("StorageType", "accounting_storage/mysql"),
            Setting(
                "StorageHost",
                "localhost",
                "MariaDB on the same node, which knows user slurm by the socket: no password is needed. For "
                "a database elsewhere name its host, and add StoragePass here, in this file only.",
            ),
            Setting("StorageUser", USER),
            Setting("StorageLoc", "slurm_acct_db"),
        ],
    )
