"""Nodes of a lab that a real Slurm powers on when jobs wait for them, and off when they are idle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from gridwright.node_programs.power import OWN, PowerNode, parse_nodes
from gridwright.providers.lab.namespaces import kill
from gridwright.providers.lab.record import Places, read
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "powered"
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.99.0.0/24}}
nodes:
  compute: {{count: 3, min: 1, idle: 5s, cores: 1, memory: 256 MiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
"""
SOON_S = 40.0
"""Slurm looks at idle nodes, and at jobs whose nodes have come, every ten to thirty seconds."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("powered")
    spec = place / "powered.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


def nodes(lab: Lab) -> dict[str, PowerNode]:
    return parse_nodes(lab.run("controller", "scontrol", "-o", "show", "nodes").out)


def running(lab: Lab) -> set[str]:
    """Compute nodes that are there."""
    record = read(lab.name)
    assert record is not None
    return {node.plan.name for node in record.nodes if node.up and node.plan.group == "compute"}


def becomes(lab: Lab, what: str, seen: Callable[[dict[str, PowerNode]], bool]) -> None:
    wait_until(
        lambda: True if seen(nodes(lab)) else None,
        seconds=SOON_S,
        what=what,
        last=lambda: (nodes(lab), log(lab)),
    )


def is_off(lab: Lab, *names: str) -> Callable[[dict[str, PowerNode]], bool]:
    return lambda now: (
        all("POWERED_DOWN" in now[each].flags for each in names) and not running(lab) & {*names}
    )


def log(lab: Lab) -> str:
    return Places(lab.name).power_log.read_text()


def submit(lab: Lab, seconds: int, *options: str) -> str:
    done = lab.run(
        *("controller", "sbatch", "--parsable", "--chdir=/tmp", "-o/dev/null", *options),
        f"--wrap=sleep {seconds}",
    )
    assert done.status == 0, done.err
    return done.out.strip()


def state(lab: Lab, job: str) -> tuple[str, str]:
    """State of a job, and where it runs or ran."""
    shown = dict(
        part.split("=", 1)
        for part in lab.run("controller", "scontrol", "-o", "show", "job", job).out.split()
        if "=" in part
    )
    return shown["JobState"], shown.get("NodeList", "")


def finished(lab: Lab, *jobs: str) -> None:
    wait_until(
        lambda: True if all(state(lab, job)[0] == "COMPLETED" for job in jobs) else None,
        seconds=2 * SOON_S,
        what="jobs that have ended",
        last=lambda: ([state(lab, job) for job in jobs], nodes(lab), log(lab)),
    )


def status(lab: Lab) -> tuple[int, dict[str, str]]:
    ended = lab.status()
    return ended.status, {each["name"]: each["state"] for each in json.loads(ended.out)["nodes"]}


def test_a_lab_whose_nodes_are_off_is_whole_and_a_job_wakes_one(lab: Lab) -> None:
    assert running(lab) == {"compute1"}
    off = {"controller": "up", "compute1": "up", "compute2": "powered-down", "compute3": "powered-down"}
    assert status(lab) == (0, off)
    assert lab.command("up", lab.spec).status == 0
    assert running(lab) == {"compute1"}

    job = submit(lab, 1, "-wcompute3")
    wait_until(
        lambda: True if running(lab) == {"compute1", "compute3"} else None,
        seconds=SOON_S,
        what="compute3",
        last=lambda: (nodes(lab), log(lab)),
    )
    assert "POWERED_DOWN" in nodes(lab)["compute2"].flags
    lab.run("controller", "scancel", job)


def test_iotest_names_nodes_that_are_off_and_tests_the_others(lab: Lab) -> None:
    becomes(lab, "nodes off", is_off(lab, "compute2", "compute3"))
    ended = lab.command("iotest", lab.spec, "--seconds", "1s", "--allow-disturbed", "--json")
    document = json.loads(ended.out)
    (off,) = [each for each in document["findings"] if each["name"] == "nodes-off"]
    assert off["text"].startswith("compute[2-3] are off")
    assert not [each for each in document["findings"] if each["name"] == "node-lost"]


@pytest.mark.thorough
def test_nodes_come_for_jobs_go_when_idle_and_the_least_stay(lab: Lab) -> None:
    becomes(lab, "nodes off", is_off(lab, "compute2", "compute3"))
    jobs = [submit(lab, 1) for _ in range(3)]
    wait_until(
        lambda: True if running(lab) == {"compute1", "compute2", "compute3"} else None,
        seconds=SOON_S,
        what="all nodes",
        last=lambda: (nodes(lab), log(lab)),
    )
    finished(lab, *jobs)
    assert {state(lab, job)[1] for job in jobs} == {"compute1", "compute2", "compute3"}

    becomes(lab, "nodes off again", is_off(lab, "compute2", "compute3"))
    assert nodes(lab)["compute1"].flags == {"IDLE"}
    assert running(lab) == {"compute1"}


def test_doctor_names_nodes_that_are_off_and_does_not_count_them_lost(lab: Lab) -> None:
    ended = lab.command("doctor", lab.spec, "--json")
    told = [each for each in json.loads(ended.out)["checks"] if each["name"] in ("node-silent", "node-down")]
    assert told
    assert all(each["ok"] for each in told), told
    assert any("until a job waits" in each["found"] and each["nodes"] == "compute[2-3]" for each in told), (
        told
    )


@pytest.mark.thorough
def test_a_node_that_cannot_be_had_is_named_and_its_job_runs_elsewhere(lab: Lab) -> None:
    becomes(lab, "nodes off", is_off(lab, "compute2", "compute3"))
    changes = Places(lab.name).node("compute3")
    kept = changes.with_name("kept")
    if changes.exists():
        changes.rename(kept)
    changes.write_text("no directory, so that it cannot boot")
    jobs = [submit(lab, 1) for _ in range(3)]
    becomes(lab, "a reason", lambda now: now["compute3"].is_given_up)
    assert nodes(lab)["compute3"].reason.startswith(f"{OWN}node compute3 cannot be started: ")
    finished(lab, *jobs)
    assert "compute3" not in {state(lab, job)[1] for job in jobs}

    # It is tried again by itself, and once it can be had it serves.
    changes.unlink()
    becomes(lab, "another try", lambda now: not now["compute3"].is_given_up)
    ended = lab.run("controller", "srun", "-w", "compute3", "--chdir=/", "hostname")
    assert ended.out.strip() == "compute3", (ended.err, log(lab))


@pytest.mark.thorough
def test_a_node_that_is_given_back_by_force_loses_no_job_and_can_be_had_again(lab: Lab) -> None:
    """What a node does when EC2 takes its spot instance away."""
    ended = lab.run("controller", "srun", "-w", "compute2", "--chdir=/", "hostname")
    assert ended.out.strip() == "compute2", (ended.err, log(lab))
    job = submit(lab, 600, "-wcompute2")
    wait_until(
        lambda: True if state(lab, job)[0] == "RUNNING" else None,
        seconds=SOON_S,
        what="a job",
        last=lambda: (state(lab, job), log(lab)),
    )
    said = f"Reason={OWN}EC2 takes this spot instance back"
    given = ("scontrol", "update", "NodeName=compute2", "State=POWER_DOWN_FORCE", said)
    assert lab.run("compute2", *given).status == 0
    wait_until(
        lambda: True if state(lab, job)[0] == "PENDING" else None,
        seconds=SOON_S,
        what="the job that waits again",
        last=lambda: (state(lab, job), nodes(lab)),
    )
    assert nodes(lab)["compute2"].reason == said.partition("=")[2]
    # It is bound to this node, which is powered on for it anew.
    wait_until(
        lambda: True if state(lab, job)[0] == "RUNNING" else None,
        seconds=2 * SOON_S,
        what="the job that runs again",
        last=lambda: (state(lab, job), nodes(lab), log(lab)),
    )
    lab.run("controller", "scancel", job)


@pytest.mark.thorough
def test_what_powers_nodes_is_started_again_by_up_and_cleans_up_what_slurm_does_not_want(lab: Lab) -> None:
    becomes(lab, "nodes off", is_off(lab, "compute2", "compute3"))
    record = read(lab.name)
    assert record is not None
    assert record.power is not None
    kill(record.power)
    # Somebody powers a node on that Slurm has as off, and nothing looks after it.
    lab.fault("power-on", "compute2")
    assert "compute2" in running(lab)
    broken = lab.status()
    assert broken.status == 3
    assert "does not run" in json.loads(broken.out)["power"]
    assert lab.up().status == 0
    becomes(lab, "compute2 off", is_off(lab, "compute2"))
    assert status(lab)[0] == 0
