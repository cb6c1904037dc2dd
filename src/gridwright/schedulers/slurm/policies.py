"""Reads what a Slurm lets its users do: partitions, classes of service (QOS), accounts and limits.

Fields and words are those of scontrol(1), sacctmgr(1) and sshare(1); nothing is changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gridwright.errors import GridwrightError
from gridwright.schedulers.policies import AccountPolicy, QosPolicy, QueuePolicy, SchedulerPolicies
from gridwright.schedulers.slurm.cluster import Cluster, Partition, parse_time_limit
from gridwright.schedulers.slurm.tools import Tools
from gridwright.spec.hosts import fold_hosts

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
    return [_queue(each, cluster) for each in cluster.partitions.values()]


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
        users=tuple(dict.fromkeys(each["User"] for each in users)),
        qos=tuple(sorted({name for each in (row, *users) for name in each["QOS"].split(",") if name})),
        limits=_limits(row),
        user_limits={each["User"]: limits for each in users if (limits := _limits(each))},
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
