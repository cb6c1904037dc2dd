"""Holds the settings of a Slurm that is there against data/recommended.csv; nothing is changed.

The values are those that matter of what Gridwright itself would write (docs/slurm.md, What is set, and why).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from gridwright.schedulers.policies import AccountPolicy, QosPolicy, SchedulerPolicies, SettingComparison
from gridwright.schedulers.slurm.cluster import Cluster

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
        bare = [each.name for each in cluster.partitions.values() if not each.has_default_memory]
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
    return not all(each.has_default_memory for each in cluster.partitions.values())


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
    shared = [each.name for each in policies.accounts if (each.share or "") not in _PLAIN_SHARES]
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
