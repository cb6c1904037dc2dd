"""The kind `slurm`: its section of the grid spec, and how it is opened.

munge in a lab: nodes trust messages of Slurm that were made with the key of their lab.

Holds the settings of a Slurm that is there against data/recommended.csv; nothing is changed.

The values are those that matter of what Gridwright itself would write (docs/slurm.md, What is set, and why).

Reads what a Slurm lets its users do: partitions, classes of service (QOS), accounts and limits.

Fields and words are those of scontrol(1), sacctmgr(1) and sshare(1); nothing is changed.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gridwright.errors import GridwrightError
from gridwright.schedulers.kind import SchedulerKind
from gridwright.schedulers.machines import GridPart, NetworkRule, SchedulerNodes, SharedKey
from gridwright.schedulers.scheduler import (
    AccountPolicy,
    QosPolicy,
    QueuePolicy,
    SchedulerPolicies,
    SettingComparison,
)
from gridwright.schedulers.slurm.cluster import Cluster, Partition, parse_time_limit
from gridwright.schedulers.slurm.section import SlurmSection, section_of
from gridwright.schedulers.slurm.tools import Tools
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import EPHEMERAL, Ports
from gridwright.services.service import ServiceNode, make_directory, run_on_nodes, runs, start_daemon
from gridwright.spec.hosts import fold_hosts

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.job import NodeState
    from gridwright.schedulers.machines import GridMachines, SchedulerSetup
    from gridwright.schedulers.slurm.scheduler import SlurmScheduler
    from gridwright.schedulers.usage import JobUsage
    from gridwright.services.service import Service
    from gridwright.spec.model import GridSpec


_QOS_LIMITS = (
    *("GrpTRES", "GrpJobs", "GrpSubmit", "GrpWall", "MaxTRES", "MaxWall", "MaxTRESPU", "MaxJobsPU"),
    "MaxSubmitPU",
)
_LIMITS = ("GrpTRES", "GrpJobs", "GrpSubmit", "GrpWall", "MaxTRES", "MaxJobs", "MaxSubmit", "MaxWall")
_ACCOUNT_FIELDS = ("Account", "User", "Partition", "ParentName", "Share", "QOS", *_LIMITS)
_PARTITION_LIMITS = {
    "MaxNodes": "UNLIMITED",
    "MinNodes": "0",
    "MaxCPUsPerNode": "UNLIMITED",
    "MaxMemPerNode": "UNLIMITED",
    "MaxMemPerCPU": "UNLIMITED",
    "PreemptMode": "OFF",
    "OverSubscribe": "NO",
}
"""Of a partition, beside the columns of its own, with the word that means no limit."""
_NO_TIMES = ("NONE", "UNLIMITED")


def read_policies(tools: Tools, cluster: Cluster) -> SchedulerPolicies:
    """What `cluster` tells, and its database; one that does not answer is said in the result."""
    config = cluster.config
    qos: Sequence[QosPolicy] = ()
    accounts: Sequence[AccountPolicy] = ()
    silent = None
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        try:
            qos = parse_qos(_printed(tools, "qos", ("Name", "Priority", "Preempt", *_QOS_LIMITS)))
            name = config.get("ClusterName", "")
            said = _printed(tools, "assoc", _ACCOUNT_FIELDS, f"cluster={name}")
            accounts = parse_accounts(said, _shares(tools, config))
        except GridwrightError as error:
            silent = error.problems[0].what
    return SchedulerPolicies(
        scheduler=f"Slurm {config.get('SLURM_VERSION', '')}".strip(),
        cluster=config.get("ClusterName", ""),
        queues=queues_of(cluster),
        qos=qos,
        accounts=accounts,
        enforced=enforced(config),
        accounting_silent=silent,
    )


def enforced(config: Mapping[str, str]) -> tuple[str, ...]:
    """What of accounts and limits Slurm insists on (slurm.conf(5), AccountingStorageEnforce)."""
    words = config.get("AccountingStorageEnforce", "none").split(",")
    return tuple(word for word in words if word not in ("none", "0", "(null)", ""))


def _printed(tools: Tools, what: str, fields: Sequence[str], *chosen: str) -> str:
    command = ["sacctmgr", "-n", "-P", "show", what, *chosen, f"format={','.join(fields)}"]
    return tools.query(command).decode(errors="replace")


def _shares(tools: Tools, config: Mapping[str, str]) -> str:
    """What `sshare` says of accounts; empty where Slurm keeps no fair share."""
    if config.get("PriorityType") != "priority/multifactor":
        return ""
    return tools.query(["sshare", "-P", "-n", "-o", "Account,User,EffectvUsage,LevelFS"]).decode(
        errors="replace"
    )


def queues_of(cluster: Cluster) -> list[QueuePolicy]:
    """Its partitions."""
    return [_queue(partition, cluster) for partition in cluster.partitions.values()]


def _queue(partition: Partition, cluster: Cluster) -> QueuePolicy:
    line = partition.fields
    tier, usual = line.get("PriorityTier", ""), line.get("DefaultTime", "NONE")
    allowed = {"accounts": line.get("AllowAccounts", "ALL"), "groups": line.get("AllowGroups", "ALL")}
    narrowed = [f"{what} {names}" for what, names in allowed.items() if names != "ALL"]
    if denied := line.get("DenyAccounts"):
        narrowed.append(f"not accounts {denied}")
    qos = line.get("QoS", "N/A")
    return QueuePolicy(
        name=partition.name,
        default=partition.default,
        open=partition.up,
        nodes=fold_hosts(partition.nodes),
        cores=sum(node.state.cores for node in cluster.nodes_of(partition)),
        longest_s=partition.longest_s,
        usual_s=None if usual in _NO_TIMES else parse_time_limit(usual),
        priority=int(tier) if tier.isdigit() else None,
        accounts="; ".join(narrowed) or None,
        qos=None if qos in ("N/A", "(null)") else qos,
        limits={
            name: line[name]
            for name, none in _PARTITION_LIMITS.items()
            if line.get(name, none) not in (none, "(null)")
        },
    )


def _rows(text: str, fields: Sequence[str]) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        values = line.split("|")
        if len(values) == len(fields):
            yield dict(zip(fields, values, strict=True))


def parse_qos(text: str) -> list[QosPolicy]:
    """What `sacctmgr -n -P show qos` prints of our fields."""
    return [
        QosPolicy(
            name=row["Name"],
            priority=int(row["Priority"]) if row["Priority"].isdigit() else 0,
            preempts=row["Preempt"] or None,
            limits={name: row[name] for name in _QOS_LIMITS if row[name]},
        )
        for row in _rows(text, ("Name", "Priority", "Preempt", *_QOS_LIMITS))
    ]


def parse_accounts(text: str, shares: str = "") -> list[AccountPolicy]:
    """What `sacctmgr -n -P show assoc` prints of our fields, and `sshare` of the same accounts."""
    standing = {
        row["Account"].strip(): row
        for row in _rows(shares, ("Account", "User", "Usage", "LevelFS"))
        if not row["User"]
    }
    rows = list(_rows(text, _ACCOUNT_FIELDS))
    return [_account(row, rows, standing.get(row["Account"], {})) for row in rows if not row["User"]]


def _account(
    row: Mapping[str, str], rows: Sequence[Mapping[str, str]], standing: Mapping[str, str]
) -> AccountPolicy:
    users = [each for each in rows if each["Account"] == row["Account"] and each["User"]]
    return AccountPolicy(
        name=row["Account"],
        parent=row["ParentName"] or None,
        share=row["Share"] or None,
        users=tuple(dict.fromkeys(user["User"] for user in users)),
        qos=tuple(sorted({name for each in (row, *users) for name in each["QOS"].split(",") if name})),
        limits=_limits(row),
        user_limits={user["User"]: limits for user in users if (limits := _limits(user))},
        usage=_fraction(standing.get("Usage", "")),
        fair_share=_fraction(standing.get("LevelFS", "")),
    )


def _limits(row: Mapping[str, str]) -> dict[str, str]:
    return {name: row[name] for name in _LIMITS if row[name]}


def _fraction(text: str) -> float | None:
    """A figure; None for a blank, and for the infinite one of an account that has used nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


_NOTHING = ("", "(null)", "none", "n/a", "unlimited")
_PLAIN_SHARES = ("", "0", "1", "parent")


def compared_settings(cluster: Cluster, policies: SchedulerPolicies) -> list[SettingComparison]:
    """Each setting of the table that this Slurm tells of, and what its settings mean together."""
    listed = [
        _compared(row, cluster.config[row["setting"]]) for row in _table() if row["setting"] in cluster.config
    ]
    return [*listed, *_together(cluster, policies)]


@cache
def _table() -> Sequence[Mapping[str, str]]:
    text = files("gridwright.schedulers.slurm").joinpath("data", "recommended.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def _compared(row: Mapping[str, str], found: str) -> SettingComparison:
    return SettingComparison(
        name=row["setting"],
        found=found,
        recommended=_in_words(row["rule"], row["value"]),
        cost=row["cost"],
        source=row["source"],
        harmful=row["harmful"] == "yes",
        ok=is_as_recommended(row["rule"], row["value"], found),
        remedy=row["remedy"],
    )


def is_as_recommended(rule: str, value: str, found: str) -> bool:
    """Whether a value, as `scontrol show config` prints it, keeps a rule. Raises ValueError for no rule."""
    words = found.lower()
    if rule == "one-of":
        return words in value.lower().split()
    if rule == "contains":
        return value.lower() in words
    if rule == "set":
        return words not in _NOTHING
    number = re.match(r"\d+", found)
    if rule == "at-least":
        return words == "unlimited" or (number is not None and int(number[0]) >= int(value))
    if rule == "at-most":
        return number is not None and int(number[0]) <= int(value)
    raise ValueError(f"no rule {rule}")


def _in_words(rule: str, value: str) -> str:
    if rule == "one-of":
        return " or ".join(value.split())
    return {
        "contains": f"with {value}",
        "set": "a program",
        "at-least": f"{value} or more",
        "at-most": f"{value} or less",
    }[rule]


def _together(cluster: Cluster, policies: SchedulerPolicies) -> Iterator[SettingComparison]:
    config = cluster.config
    if cluster.shares_memory:
        bare = [
            partition.name for partition in cluster.partitions.values() if not partition.has_default_memory
        ]
        yield SettingComparison(
            name="DefMemPerCPU",
            found=f"none for {', '.join(bare)}" if _lacks_memory(cluster) else "there",
            recommended="the smallest share of a core",
            cost="a job that names no memory takes all memory of its node, and no other job starts there",
            source="slurm.conf(5)",
            harmful=True,
            ok=not _lacks_memory(cluster),
            remedy="write DefMemPerCPU, the memory of a node divided by its cores",
        )
    keeps = [config.get(name, "") for name in ("AccountingStorageType", "JobCompType")]
    kept = [each for each in keeps if each.lower() not in _NOTHING and not each.endswith("/none")]
    yield SettingComparison(
        name="AccountingStorageType",
        found=", ".join(kept) or "none",
        recommended="accounting_storage/slurmdbd, or JobCompType",
        cost="what became of a job is forgotten MinJobAge after its end, and nobody knows who used what",
        source="slurm.conf(5)",
        harmful=True,
        ok=bool(kept),
        remedy="write JobCompType=jobcomp/filetxt, or have slurmdbd",
    )
    yield from _idle_rules(config, policies)


def _lacks_memory(cluster: Cluster) -> bool:
    usual = [cluster.config.get(name, "") for name in ("DefMemPerCPU", "DefMemPerNode")]
    if any(text[:1].isdigit() and text != "0" for text in usual):
        return False
    return not all(partition.has_default_memory for partition in cluster.partitions.values())


def _idle_rules(config: Mapping[str, str], policies: SchedulerPolicies) -> Iterator[SettingComparison]:
    """Limits and shares that stand in the database, and that nothing keeps."""
    held: list[QosPolicy | AccountPolicy] = [*policies.qos, *policies.accounts]
    limited = [each.name for each in held if _has_limits(each)]
    if limited:
        yield SettingComparison(
            name="AccountingStorageEnforce",
            found=",".join(policies.enforced) or "none",
            recommended="with limits (and qos for those of a QOS)",
            cost=f"limits of {_some(limited)} stand in the database, and no job is held to them",
            source="slurm.conf(5)",
            harmful=True,
            ok=any(word in ("limits", "safe", "all") for word in policies.enforced),
            remedy="write AccountingStorageEnforce=associations,limits,qos",
        )
    shared = [account.name for account in policies.accounts if (account.share or "") not in _PLAIN_SHARES]
    if shared:
        found = config.get("PriorityType", "priority/basic")
        weight = config.get("PriorityWeightFairShare", "0")
        kept = found == "priority/multifactor" and weight != "0"
        yield SettingComparison(
            name="PriorityWeightFairshare",
            found=found if found != "priority/multifactor" else weight,
            recommended="priority/multifactor, with a weight above 0",
            cost=f"shares of {_some(shared)} stand in the database, and order no job",
            source="slurm.conf(5)",
            harmful=False,
            ok=kept,
            remedy="write PriorityType=priority/multifactor and PriorityWeightFairshare=100000",
        )


def _has_limits(each: QosPolicy | AccountPolicy) -> bool:
    return bool(each.limits or (isinstance(each, AccountPolicy) and each.user_limits))


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


KEY = "/etc/munge/munge.key"
KEY_BYTES = 128
"""1024 bits, as mungekey(8) makes them."""
USER = "munge"


class Munge:
    """munged on every node that talks to Slurm."""

    name = "munged"
    patience_s = 30.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Put the lab's key on the nodes; only munged can read it."""
        key = lab.secret("munge.key", lambda: os.urandom(KEY_BYTES))

        def put(node: ServiceNode) -> None:
            node.write(KEY, key, mode=0o400, owner=USER)
            make_directory(node, "/etc/munge", "/var/lib/munge", "/var/log/munge", owner=USER, mode="0700")
            # Its socket is in there, for everybody.
            make_directory(node, "/run/munge", owner=USER)

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start munged as its own user."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "munged"):
                start_daemon(
                    node,
                    ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/usr/sbin/munged"],
                )

        run_on_nodes(lab, nodes, start)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """A credential is made and read."""
        here = lab.nodes[node]
        made = here.run(["munge", "-n"], timeout_s=4.0)
        if made.status:
            return f"munge makes no credential: {made.stderr.decode(errors='replace').strip()}"
        read = here.run(["unmunge"], stdin=made.stdout, timeout_s=4.0)
        if read.status:
            return f"munge reads no credential: {read.stderr.decode(errors='replace').strip()}"
        return None


SLURMCTLD = Ports("Slurmctld", 6817, 6817)
SLURMD = Ports("Slurmd", 6818, 6818)
SLURMDBD = Ports("Slurmdbd", 6819, 6819)


class SlurmKind(SchedulerKind[SlurmSection]):
    """Hands jobs to Slurm through its own commands on the head node."""

    spec_model = SlurmSection
    shared_key = SharedKey("munge", length=128, variable="slurm_munge_key_file")
    """Letters and digits of 6 bits; munge wants 32 bytes at least (munged(8))."""

    def open(self, spec: GridSpec, head: HeadNode) -> SlurmScheduler:
        """The Slurm of a grid; see SchedulerKind."""
        from gridwright.schedulers.slurm.scheduler import SlurmScheduler
        from gridwright.schedulers.state_directory import state_directory

        return SlurmScheduler(spec, head, state_directory(spec))

    def nodes(self, spec: GridSpec, head: HeadNode) -> list[NodeState]:
        """As Slurm's own commands tell them: nothing of the state directory is needed."""
        from gridwright.schedulers.slurm.cluster import read_nodes
        from gridwright.schedulers.slurm.tools import Tools

        return [node.state for node in read_nodes(Tools(head)).values()]

    def policies(self, spec: GridSpec, head: HeadNode) -> SchedulerPolicies:
        """Partitions, QOS, accounts and limits; see SchedulerKind."""
        from gridwright.schedulers.slurm.cluster import read_cluster
        from gridwright.schedulers.slurm.tools import Tools

        tools = Tools(head)
        return read_policies(tools, read_cluster(tools))

    def compared_settings(self, spec: GridSpec, head: HeadNode) -> Sequence[SettingComparison]:
        """What `scontrol show config` tells; see SchedulerKind."""
        from gridwright.schedulers.slurm.cluster import read_cluster
        from gridwright.schedulers.slurm.tools import Tools

        tools = Tools(head)
        cluster = read_cluster(tools)
        return compared_settings(cluster, read_policies(tools, cluster))

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """Out of slurmdbd, or the file of jobcomp/filetxt and our own record; see SchedulerKind."""
        return self.open(spec, head).usage(since, until)

    def setup(
        self, spec: GridSpec, machines: Callable[[], GridMachines], release: str | None = None
    ) -> SchedulerSetup:
        """slurm.conf and its companions; see SchedulerKind."""
        from gridwright.schedulers.slurm.setting_up import slurm_setup

        return slurm_setup(spec, machines(), release)

    def playbook_variables(self, setup: SchedulerSetup | None, *, sets_up: bool) -> Mapping[str, Any]:
        """Variables of the role slurm."""
        return {
            "gridwright_slurm_configure": setup is not None and sets_up,
            "gridwright_slurm": {} if setup is None else dict(setup.variables),
        }

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The role slurm: packages, key, configuration and daemons."""
        role = PlaybookRole(
            name="slurm",
            task="Set Slurm up",
            when="gridwright_slurm_configure and gridwright_slurm | length > 0 "
            "and group_names | intersect(['compute', 'head']) | length > 0",
            package="gridwright.schedulers.slurm",
            comment="Servers of file systems run no jobs and start none, and are given no key.",
        )
        return (role,)

    def lab_services(
        self, spec: GridSpec, controller: str, workers: Sequence[str]
    ) -> Sequence[Service[SchedulerNodes]]:
        """Munged everywhere, slurmctld on the controller and its backup, slurmd on the workers.

        With slurmdbd it and MariaDB are on the controller.
        """
        from gridwright.schedulers.slurm.setting_up import MariaDb, SlurmController, SlurmDatabase, SlurmNodes

        backups = self.standbys(spec, workers)
        has_database = section_of(spec).has_database
        database = (MariaDb(controller), SlurmDatabase(controller)) if has_database else ()
        return (
            Munge([controller, *workers]),
            *database,
            SlurmController([controller, *backups]),
            SlurmNodes(workers),
        )

    def standbys(self, spec: GridSpec, workers: Sequence[str]) -> Sequence[str]:
        """The first node that runs jobs, with `backup_controller`."""
        return workers[:1] if section_of(spec).backup_controller else ()

    def network_rules(self, spec: GridSpec) -> Iterator[NetworkRule]:
        """slurmctld, slurmd and slurmdbd, and the ports that srun waits at."""
        login, head, compute = GridPart.LOGIN, GridPart.HEAD, GridPart.COMPUTE
        for source in (login, compute):
            yield NetworkRule(head, source, SLURMCTLD, "commands and nodes to slurmctld")
            if section_of(spec).has_database:
                yield NetworkRule(head, source, SLURMDBD, "commands to slurmdbd")
        for source in (login, head, compute):
            yield NetworkRule(compute, source, SLURMD, "slurmctld, srun and other nodes to slurmd")
        for target in (login, compute):
            yield NetworkRule(target, head, EPHEMERAL, "slurmctld to a waiting srun")
        yield NetworkRule(compute, compute, EPHEMERAL, "steps of a job to their srun and to each other")


KIND = SlurmKind()
