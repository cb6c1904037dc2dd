"""A site's Slurm: its rules as its commands print them, and its settings against what is recommended."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.schedulers.scheduler import AccountPolicy, QosPolicy, SchedulerPolicies, SettingComparison
from gridwright.schedulers.slurm.cluster import Cluster, parse_nodes, parse_partitions
from gridwright.schedulers.slurm.kind import (
    compared_settings,
    enforced,
    is_as_recommended,
    parse_accounts,
    parse_qos,
    queues_of,
)

TABLE = list(
    csv.DictReader(
        files("gridwright.schedulers.slurm").joinpath("data", "recommended.csv").read_text().splitlines()
    )
)
PARTITIONS = """\
PartitionName=day AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A \
DefaultTime=00:10:00 MaxNodes=UNLIMITED MaxTime=08:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED \
Nodes=c[1-2] PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=OFF State=UP TotalCPUs=16 \
TotalNodes=2 DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
PartitionName=night AllowGroups=ALL DenyAccounts=guests AllowQos=ALL Default=NO QoS=night DefaultTime=NONE \
MaxNodes=1 MaxTime=UNLIMITED MinNodes=0 MaxCPUsPerNode=4 Nodes=c2 PriorityTier=10 OverSubscribe=FORCE:4 \
PreemptMode=OFF State=DOWN TotalCPUs=8 TotalNodes=1 DefMemPerCPU=1000 MaxMemPerNode=UNLIMITED
"""
NODE = (
    "NodeName={} Arch=x86_64 CoresPerSocket=4 CPUAlloc=0 CPUEfctv=8 CPUTot=8 RealMemory=32000 AllocMem=0 "
    "Sockets=1 State=IDLE ThreadsPerCore=2"
)
QOS = "normal|0||||||||||\nnight|5|normal|cpu=64||200||cpu=8|01:00:00|cpu=16|2|10\n"
ACCOUNTS = """\
root||||1|normal||||||||
root|root|||1|normal||||||||
research|||root|30|normal|cpu=6|||||||
research|ada|||1|night,normal||||||5||
research|ada|night||1|night|||||||2|
genome|||research|parent|normal||||||||
"""
SHARES = " root||1.000000|\n research||0.250000|1.800000\n  genome||0.000000|inf\n"
NONE = SchedulerPolicies(scheduler="Slurm 22.05.8", cluster="hall2", queues=())


def cluster(config: Mapping[str, str], partitions: str = PARTITIONS) -> Cluster:
    nodes = "\n".join(NODE.format(name) for name in ("c1", "c2"))
    return Cluster(config, parse_partitions(partitions), parse_nodes(nodes))


def wrong(config: Mapping[str, str], policies: SchedulerPolicies = NONE) -> dict[str, SettingComparison]:
    return {each.name: each for each in compared_settings(cluster(config), policies) if not each.ok}


def test_a_partition_has_its_limits_and_who_may_use_it() -> None:
    day, night = queues_of(cluster({}))
    assert (day.default, day.open, day.nodes, day.cores) == (True, True, "c[1-2]", 8)
    assert (day.longest_s, day.usual_s, day.accounts, day.qos, day.limits) == (28_800, 600, None, None, {})
    assert (night.open, night.longest_s, night.priority, night.qos) == (False, None, 10, "night")
    assert night.accounts == "not accounts guests"
    assert night.limits == {"MaxNodes": "1", "MaxCPUsPerNode": "4", "OverSubscribe": "FORCE:4"}


def test_a_class_of_service_has_the_limits_that_are_set() -> None:
    normal, night = parse_qos(QOS)
    assert (normal.priority, normal.preempts, normal.limits) == (0, None, {})
    assert (night.priority, night.preempts) == (5, "normal")
    assert night.limits == {
        "GrpTRES": "cpu=64",
        "GrpSubmit": "200",
        "MaxTRES": "cpu=8",
        "MaxWall": "01:00:00",
        "MaxTRESPU": "cpu=16",
        "MaxJobsPU": "2",
        "MaxSubmitPU": "10",
    }


def test_an_account_has_its_place_its_users_once_each_and_its_share_by_what_it_used() -> None:
    root, research, genome = parse_accounts(ACCOUNTS, SHARES)
    assert (root.parent, root.users) == (None, ("root",))
    assert (research.parent, research.share, research.users) == ("root", "30", ("ada",))
    assert research.qos == ("night", "normal")
    assert research.limits == {"GrpTRES": "cpu=6"}
    assert (research.usage, research.fair_share) == (0.25, 1.8)
    assert (genome.parent, genome.usage, genome.fair_share) == ("research", 0.0, None)


@given(st.text(alphabet="abc|=\n,12 -", max_size=200))
def test_no_text_of_a_command_that_changed_its_form_ends_in_a_traceback(text: str) -> None:
    parse_qos(text)
    parse_accounts(text, text)


@pytest.mark.parametrize(
    ("written", "kept"),
    [("none", ()), ("associations,limits,qos", ("associations", "limits", "qos")), ("(null)", ())],
)
def test_what_slurm_insists_on_is_as_it_says(written: str, kept: tuple[str, ...]) -> None:
    assert enforced({"AccountingStorageEnforce": written}) == kept


@pytest.mark.parametrize(
    ("rule", "value", "found", "ok"),
    [
        ("one-of", "1 2", "2", True),
        ("one-of", "1 2", "0", False),
        ("one-of", "yes", "YES", True),
        ("contains", "MEMORY", "CR_CORE_MEMORY,CR_LLN", True),
        ("contains", "MEMORY", "CR_CORE", False),
        ("set", "", "/usr/sbin/nhc", True),
        ("set", "", "(null)", False),
        ("at-least", "180", "180 sec", True),
        ("at-least", "180", "60 sec", False),
        ("at-least", "1", "0 sec", False),
        ("at-least", "10001", "UNLIMITED", True),
        ("at-most", "120", "300 sec", False),
        ("at-most", "120", "", False),
    ],
)
def test_a_value_keeps_a_rule_or_does_not(rule: str, value: str, found: str, ok: bool) -> None:
    assert is_as_recommended(rule, value, found) is ok


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row["setting"]))
def test_every_row_says_what_it_costs_by_whose_word_and_how_to_mend_it(row: dict[str, str]) -> None:
    assert all(row[name] for name in ("cost", "remedy", "source"))
    assert row["harmful"] in ("yes", "no")
    is_as_recommended(row["rule"], row["value"], "1")


def test_limits_and_shares_that_nothing_keeps_are_not_taken_for_kept() -> None:
    account = AccountPolicy(name="research", parent="root", share="30", users=(), qos=(), limits={})
    night = QosPolicy(name="night", priority=0, preempts=None, limits={"GrpTRES": "cpu=64"})
    stored = {"AccountingStorageType": "accounting_storage/slurmdbd", "PriorityType": "priority/multifactor"}

    def found(weight: str, *kept: str) -> set[str]:
        rules = SchedulerPolicies(
            scheduler="Slurm", cluster="hall2", queues=(), qos=[night], accounts=[account], enforced=kept
        )
        return set(wrong({**stored, "PriorityWeightFairShare": weight}, rules))

    idle = {"AccountingStorageEnforce", "PriorityWeightFairshare"}
    assert found("0", "associations") == idle
    assert found("1000", "associations", "limits", "qos") == set()


def test_memory_that_is_given_out_without_a_usual_share_takes_whole_nodes() -> None:
    shares = {"SelectTypeParameters": "CR_CORE_MEMORY", "JobCompType": "jobcomp/filetxt"}
    assert wrong({**shares, "DefMemPerCPU": "UNLIMITED"})["DefMemPerCPU"].found == "none for day"
    assert "DefMemPerCPU" not in wrong({**shares, "DefMemPerCPU": "4000"})
    assert "DefMemPerCPU" not in wrong({**shares, "SelectTypeParameters": "CR_CORE"})


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"AccountingStorageType": "accounting_storage/none", "JobCompType": "jobcomp/none"}, False),
        ({"AccountingStorageType": "(null)", "JobCompType": "(null)"}, False),
        ({"AccountingStorageType": "accounting_storage/none", "JobCompType": "jobcomp/filetxt"}, True),
        ({"AccountingStorageType": "accounting_storage/slurmdbd"}, True),
    ],
)
def test_a_slurm_that_forgets_ended_jobs_is_named(config: dict[str, str], kept: bool) -> None:
    assert ("AccountingStorageType" not in wrong(config)) is kept
