"""Nodes of a real Slurm are emptied before they are replaced: no job ends for it, and none begins there."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from gridwright.node_programs.drain import OWN, Queue, ended_jobs, retain_hardware
from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.aws.roll.deciding import Due, GroupInstance, SeenGrid, SeenGroup, SetUp, decide
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "drain"
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.97.0.0/24}}
nodes:
  compute: {{count: 3, cores: 2, memory: 512 MiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
"""
NODES = ("compute1", "compute2", "compute3")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("drain")
    spec = place / "drain.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


@dataclass
class Roll:
    """The program's look, decision and words to Slurm; instances are of the test's own."""

    lab: Lab
    limit_s: float | None = None
    fresh: dict[str, SetUp] = field(default_factory=dict)
    """Nodes that were replaced, and what they told."""

    def __post_init__(self) -> None:
        self.queue = Queue(self._run)

    def _run(self, argv: Sequence[str], limit_s: float) -> Ended:
        done = self.lab.run("controller", *argv)
        return Ended(tuple(argv), done.status, done.out + done.err, 0.0)

    def once(self) -> Due:
        instances = tuple(GroupInstance(name, name not in self.fresh) for name in NODES)
        told = {name: self.fresh.get(name, SetUp("done")) for name in NODES}
        names = {name: name for name in NODES}
        group = SeenGroup("grid", False, 3, instances, NODES)
        nodes = self.queue.nodes()
        assert nodes is not None, self.queue.failures
        seen = SeenGrid((group,), names, told, True, nodes, "", time.time())
        due = decide(seen, self.limit_s)
        assert self.queue.resume(due.resume), self.queue.failures
        for job in ended_jobs(nodes, due.end_on):
            assert self.queue.end(job)
        assert self.queue.drain(due.drain, seen.now), self.queue.failures
        for name in due.terminate:
            assert self.lab.run("controller", "squeue", "-h", "-w", name).out == "", "a job runs there"
            self.fresh[name] = SetUp("running")
        return due

    def becomes(self, what: str, **nodes: str) -> None:
        """Look again and again until nodes are drained, replaced, or as they were."""

        def state(name: str) -> str:
            reason = self.lab.run("controller", "sinfo", "-h", "-n", name, "-N", "-o", "%E").out
            if name in self.fresh:
                return "replaced"
            return "drained" if reason.startswith(OWN) else "as it was"

        def seen() -> bool | None:
            self.once()
            return True if all(state(name) == wanted for name, wanted in nodes.items()) else None

        wait_until(seen, seconds=60, what=what, last=lambda: {name: state(name) for name in NODES})


def submit(lab: Lab, script: str, *options: str) -> str:
    done = lab.run(
        "controller", "sbatch", "--parsable", "--chdir=/", "-o", "/dev/null", *options, "--wrap", script
    )
    assert done.status == 0, done.err
    return done.out.strip()


def job(lab: Lab, number: str) -> dict[str, str]:
    shown = lab.run("controller", "scontrol", "-o", "show", "job", number).out
    return dict(re.findall(r"\b(JobState|ExitCode|NodeList|Restarts)=(\S+)", shown))


def running(lab: Lab, number: str) -> None:
    wait_until(
        lambda: True if job(lab, number)["JobState"] == "RUNNING" else None,
        seconds=30,
        what=f"job {number} runs",
        last=lambda: job(lab, number),
    )


def test_a_job_runs_to_its_end_and_the_next_one_starts_elsewhere(lab: Lab) -> None:
    first = submit(lab, "while [ ! -e /tmp/go ]; do sleep 0.2; done", "-w", "compute1", "-t", "60")
    running(lab, first)
    roll = Roll(lab)
    # The first one is idle, and goes alone.
    roll.becomes("one node that goes", compute2="replaced", compute1="as it was", compute3="as it was")
    for _ in range(3):
        assert roll.once().drain == ()
    roll.fresh["compute2"] = SetUp("done")
    roll.becomes("the others drained", compute1="drained")
    assert roll.once().standing[0].waits[-1].startswith("compute1 has 1 jobs, for ")
    second = submit(lab, "hostname")
    wait_until(
        lambda: True if job(lab, second)["JobState"] == "COMPLETED" else None,
        seconds=60,
        what="the second job elsewhere",
        last=lambda: job(lab, second),
    )
    assert job(lab, second)["NodeList"] != "compute1"
    roll.becomes("compute3 replaced", compute3="replaced", compute1="drained")
    roll.fresh["compute3"] = SetUp("done")
    assert job(lab, first)["JobState"] == "RUNNING"
    assert lab.run("compute1", "touch", "/tmp/go").status == 0
    roll.becomes("compute1 replaced", compute1="replaced")
    assert job(lab, first) == {
        "JobState": "COMPLETED",
        "ExitCode": "0:0",
        "NodeList": "compute1",
        "Restarts": "0",
    }
    roll.fresh["compute1"] = SetUp("done")
    wait_until(lambda: True if roll.once().is_over else None, seconds=30, what="the end", last=roll.once)
    assert lab.run("controller", "sinfo", "-h", "-o", "%E").out.split() == ["none"]


def test_a_job_over_the_limit_starts_again_elsewhere(lab: Lab) -> None:
    number = submit(lab, "sleep 600", "-w", "compute3")
    running(lab, number)
    roll = Roll(lab, limit_s=3.0, fresh={"compute1": SetUp("done"), "compute2": SetUp("done")})
    roll.becomes("compute3 drained", compute3="drained")
    roll.becomes("compute3 replaced", compute3="replaced")
    assert job(lab, number)["Restarts"] == "1"
    assert lab.run("controller", "scancel", number).status == 0
    roll.fresh["compute3"] = SetUp("done")
    roll.once()


def test_slurmctld_that_starts_anew_ends_no_job_on_a_node_that_keeps_its_lines(lab: Lab) -> None:
    there = lab.run("controller", "cat", "/etc/slurm/slurm.conf").out
    larger = there.replace("CPUs=2 Sockets=1 CoresPerSocket=2", "CPUs=4 Sockets=1 CoresPerSocket=4")
    assert larger != there
    number = submit(lab, "sleep 600", "-w", "compute1", "-t", "60")
    running(lab, number)
    _install(lab, retain_hardware(larger, there, {"compute1"}))
    assert job(lab, number) == {**job(lab, number), "JobState": "RUNNING", "Restarts": "0"}
    cores = lab.run("controller", "sinfo", "-h", "-N", "-o", "%N %c").out.split()
    assert cores == ["compute1", "2", "compute2", "4", "compute3", "4"]
    # What this is for: without it the job is aborted.
    _install(lab, larger)
    assert job(lab, number)["Restarts"] == "1"
    lab.run("controller", "scancel", number)


def _install(lab: Lab, text: str) -> None:
    """As the program of the head node does it, where systemd is none."""
    write = "import sys; open('/etc/slurm/slurm.conf', 'w').write(sys.argv[1])"
    assert lab.run("controller", "python3", "-c", write, text).status == 0
    stop = 'kill "$p"; while kill -0 "$p" 2>/dev/null; do sleep 0.2; done'
    lab.run(
        "controller",
        "sh",
        "-c",
        f"p=$(cat /run/slurmctld.pid); {stop}; slurmctld </dev/null >/dev/null 2>&1 &",
    )
    wait_until(
        lambda: True if lab.run("controller", "scontrol", "ping").out.count("UP") else None,
        seconds=30,
        what="slurmctld again",
        last=lambda: lab.run("controller", "scontrol", "ping").out,
    )
