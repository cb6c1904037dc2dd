"""Slurm with slurmdbd: both daemons of the database are killed, and then a site's own Slurm in its place.

That one is configured by plain files and sacctmgr, as sites do, with accounts, QOS, fair share and limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.command import GRIDWRIGHT, Command, Ended, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "site-slurm"
NODES = ("controller", "compute1", "compute2")
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.98.0.0/24}}
nodes:
  compute: {{count: 2, cores: 4, memory: 512 MiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm, accounting: slurmdbd}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("site")
    spec = place / "grid.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


def submitted(lab: Lab, *words: str) -> str:
    done = lab.command("submit", "--grid", lab.spec, "--json", "--directory", "/tmp", *words)
    assert done.status == 0, done.err
    return str(json.loads(done.out)["job"])


def in_database(lab: Lab) -> dict[str, str]:
    """State of each ended job by number, of as many as the database has."""
    done = lab.run("controller", "sacct", "-X", "-n", "-P", "--format=JobIDRaw,State")
    rows = dict(line.split("|") for line in done.out.splitlines())
    return {job: state for job, state in rows.items() if state not in ("PENDING", "RUNNING")}


def test_only_slurmdbd_reads_the_file_of_the_database(lab: Lab) -> None:
    words = lab.run("controller", "stat", "-c", "%a %U", "/etc/slurm/slurmdbd.conf").out.split()
    assert words == ["600", "slurm"]
    assert lab.run("compute1", "test", "-e", "/etc/slurm/slurmdbd.conf").status != 0


def test_jobs_are_taken_run_and_recorded_though_the_database_and_its_daemon_are_killed(lab: Lab) -> None:
    jobs = [submitted(lab, "--array", "0-19", "--", "sh", "-c", "sleep 0.5")]
    lab.run("controller", "pkill", "-9", "-x", "mariadbd|slurmdbd")
    jobs.append(submitted(lab, "--", "sh", "-c", "exit 3"))
    waited = lab.command("wait", "--grid", lab.spec, *jobs)
    assert waited.status == 1, waited.err
    status = lab.status()
    assert status.status == 3
    assert "slurmdbd does not run" in status.out

    mended = lab.up()
    assert "mended: slurmdbd did not serve on controller" in mended.err + mended.out
    assert lab.status().status == 0
    ended = wait_until(
        lambda: found if len(found := in_database(lab)) == 21 else None,
        seconds=40.0,
        what="every job in the database",
        last=lambda: in_database(lab),
    )
    assert sorted(ended.values()) == ["COMPLETED"] * 20 + ["FAILED"]


SLURM_CONF = """\
ClusterName=hall2
SlurmctldHost=controller
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/hall2
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
ReturnToService=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=controller
AccountingStorageEnforce=associations,limits,qos
SlurmdParameters=config_overrides
NodeName=compute[1-2] CPUs=4 RealMemory=512
PartitionName=day Nodes=compute[1-2] Default=YES MaxTime=08:00:00 DefaultTime=00:10:00
PartitionName=night Nodes=compute2 AllowAccounts=research QOS=night PriorityTier=10 State=UP
"""
ACCOUNTS = (
    "add cluster hall2",
    "add qos night set Priority=5 GrpTRES=cpu=2 MaxWall=01:00:00",
    "add account research fairshare=30 GrpTRES=cpu=8 Description=x Organization=y",
    "add account genome parent=research fairshare=10 Description=x Organization=y",
    "add account closed Description=x Organization=y",
    "add user root account=research MaxJobs=3 qos=normal,night",
    "modify user root where cluster=hall2 set defaultaccount=research",
    "delete user root where cluster=hall2 account=root",
)
SITE = """\
name: hall2
provider: site
nodes:
  compute: {{hosts: "compute[1-2]"}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: slurm, account: {account}}}
"""


@dataclass
class Site:
    """Commands of Gridwright on the head node of the site."""

    lab: Lab

    def __call__(self, verb: str, *words: str, spec: str = "/srv/site.yaml") -> Ended:
        named = ["--grid", spec] if verb in ("submit", "wait", "explain", "cancel") else [spec]
        return self.lab.run("controller", GRIDWRIGHT, verb, *named, *words)

    def kept(self) -> tuple[str, ...]:
        """All that the site has configured, on every node and in the database."""
        files = [self.lab.run(node, "cat", "/etc/slurm/slurm.conf").out for node in NODES]
        shown = ("show", "assoc"), ("show", "qos")
        return (*files, *(self.lab.run("controller", "sacctmgr", "-n", "-P", *each).out for each in shown))


def write(lab: Lab, node: str, path: str, text: str) -> None:
    done = lab.run(node, "sh", "-c", 'printf %s "$1" > "$2"', "sh", text, path)
    assert done.status == 0, done.err


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    for name, account in (("site.yaml", "research"), ("closed.yaml", "closed")):
        write(lab, "controller", f"/srv/{name}", SITE.format(account=account))
    for node in NODES:
        lab.run(node, "pkill", "-9", "-x", "slurmctld|slurmd")
        write(lab, node, "/etc/slurm/slurm.conf", SLURM_CONF)
    lab.run("controller", "install", "-d", "-o", "slurm", "/var/lib/slurm/hall2")
    # Libraries are the site's to make, or set-up's.
    lab.run("controller", "install", "-d", "-m", "1777", "/mnt/grid/work", "/mnt/grid/util")
    for words in ACCOUNTS:
        said = lab.run("controller", "sacctmgr", "-i", *words.split())
        assert said.status == 0, (words, said.out, said.err)
    assert lab.run("controller", "slurmctld").status == 0
    for node in NODES[1:]:
        assert lab.run(node, "slurmd").status == 0
    wait_until(
        lambda: True if lab.run("controller", "sinfo", "-h", "-t", "idle").out else None,
        seconds=20.0,
        what="nodes of the site",
        last=lambda: lab.run("controller", "sinfo").out,
    )
    return Site(lab)


def test_status_shows_the_rules_of_a_site_as_its_slurm_has_them(site: Site) -> None:
    seen = site("status", "--json")
    assert seen.status == 0, seen.err
    found = seen.json
    assert [node["name"] for node in found["nodes"]] == ["compute1", "compute2"]
    rules = found["policies"]
    assert rules["cluster"] == "hall2"
    assert rules["enforced"] == ["associations", "limits", "qos"]
    day, night = rules["queues"]
    assert (day["default"], day["longest_s"], day["usual_s"], day["cores"]) == (True, 28_800, 600, 8)
    assert (night["accounts"], night["qos"], night["priority"]) == ("accounts research", "night", 10)
    qos = {each["name"]: each for each in rules["qos"]}
    assert qos["night"]["limits"] == {"GrpTRES": "cpu=2", "MaxWall": "01:00:00"}
    accounts = {each["name"]: each for each in rules["accounts"]}
    assert accounts["genome"]["parent"] == "research"
    assert accounts["research"]["share"] == "30"
    assert accounts["research"]["limits"] == {"GrpTRES": "cpu=8"}
    assert accounts["research"]["user_limits"] == {"root": {"MaxJobs": "3"}}
    text = site("status").out
    assert "night" in text
    assert "jobs are held to: associations, limits, qos" in text


def test_jobs_run_by_the_rules_of_the_site_and_refusals_say_which(site: Site) -> None:
    taken = site("submit", "--json", "--queue", "night", "--time", "30min", "--directory", "/", "--", "true")
    assert taken.status == 0, taken.err
    assert site("wait", str(taken.json["job"])).status == 0
    words = ("sacct", "-n", "-X", "-P", "-o", "Account,QOS,Partition,State")
    # slurmctld tells slurmdbd of an end some time after it.
    wait_until(
        lambda: "research|normal|night|COMPLETED" in site.lab.run("controller", *words).out or None,
        seconds=20.0,
        what="the job in the accounting",
        last=lambda: site.lab.run("controller", *words).out,
    )

    refused = site("submit", "--directory", "/", "--", "true", spec="/srv/closed.yaml")
    assert refused.status == 2
    assert "account" in refused.err

    # This site has its Slurm take what can never start (EnforcePartLimits), so who asks is told.
    waits = site("submit", "--queue", "night", "--time", "9h", "--directory", "/", "--", "true").out.strip()
    told = wait_until(
        lambda: said if "quality of service" in (said := site("explain", waits).out) else None,
        seconds=20.0,
        what="the reason of a job that is too long",
        last=lambda: site("explain", waits),
    )
    assert "QOSMaxWallDurationPerJobLimit" in told
    site("cancel", waits)


def test_a_proof_and_the_doctor_leave_the_configuration_as_it_was(site: Site) -> None:
    before = site.kept()
    proof = site("iotest", "--seconds", "1", "--phases", "write,read", "--json")
    assert proof.status == 0, proof.err
    checked = site("doctor", "--json")
    results = [each for each in checked.json["checks"] if not each["ok"]]
    harmful = {each["found"].split()[0] for each in results if each["name"] == "scheduler-setting-harmful"}
    assert {"SelectTypeParameters", "ProctrackType", "TaskPlugin", "HealthCheckProgram"} <= harmful
    assert not {"AccountingStorageEnforce", "AccountingStorageType"} & harmful
    (idle,) = [each for each in results if each["found"].startswith("ReturnToService is 0")]
    assert idle["level"] == "info"
    assert site("setup", "--check").status in (0, 1, 3)
    assert site.kept() == before


def test_what_would_make_or_remove_a_site_is_refused(site: Site) -> None:
    for verb in ("up", "down"):
        refused = site(verb)
        assert refused.status == 2
        assert "the machines of grid hall2 are the site's" in refused.err
