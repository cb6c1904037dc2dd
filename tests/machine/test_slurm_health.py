"""A node of a real Slurm that loses its mount takes no more jobs, says why, and is back with its mount."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gridwright.filesystems.moosefs.daemons import CONFIGURATION, PROXY
from gridwright.node_programs.health.slurm import OWN
from gridwright.schedulers.slurm.configuration import LAB
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "health"
LOST = f"{OWN}/mnt/grid is not mounted as fuse.mfs"
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.98.0.0/24, bandwidth: 20 MB/s}}
nodes:
  compute: {{count: 2, cores: 1, memory: 512 MiB}}
filesystems:
  shared: {{type: moosefs, path: /mnt/grid, servers: 1}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("health")
    spec = place / "health.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


def states(lab: Lab) -> dict[str, str]:
    """State and reason of each node, as sinfo has them."""
    shown = lab.run("controller", "sinfo", "-h", "-N", "-o", "%N %T %E").out.splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in shown}


def becomes(lab: Lab, what: str, seen: Callable[[dict[str, str]], bool], checks: float = 1) -> None:
    """Wait until all nodes are as `seen` wants them, for so many checks and what a question takes."""
    wait_until(
        lambda: True if seen(states(lab)) else None,
        seconds=LAB.health * checks + 5,
        what=what,
        last=lambda: states(lab),
    )


def mount(lab: Lab) -> None:
    options = f"mfsioretries=30,mfscfgfile=$(echo {CONFIGURATION}/mount-*.cfg),mfsproxy={PROXY}"
    command = f"mfsmount /mnt/grid -H storage1 -o {options}"
    ended = lab.run("compute1", "sh", "-c", f"{command} >/dev/null 2>&1 </dev/null")
    assert ended.status == 0, ended.err


def test_a_node_without_its_mount_is_drained_jobs_go_elsewhere_and_it_comes_back(lab: Lab) -> None:
    assert set(states(lab).values()) == {"idle none"}
    assert lab.run("compute1", "umount", "-l", "/mnt/grid").status == 0
    becomes(lab, "a drained compute1", lambda now: now["compute1"] == f"drained {LOST}")
    assert states(lab)["compute2"].startswith("idle")

    # Two jobs of a core each would go to two nodes, as the least loaded one comes first.
    runs = [lab.run("controller", "srun", "-n1", "-c1", "--chdir=/", "hostname") for _ in range(2)]
    assert [(each.status, each.out.strip()) for each in runs] == [(0, "compute2")] * 2

    # What an administrator drained is none of its business.
    said = ("scontrol", "update", "NodeName=compute2", "State=DRAIN", "Reason=broken fan")
    assert lab.run("controller", *said).status == 0
    mount(lab)
    becomes(lab, "compute1 at work", lambda now: now["compute1"].startswith("idle"))
    assert states(lab)["compute2"] == "drained broken fan"
    assert lab.run("controller", "srun", "-n1", "--chdir=/", "hostname").out.strip() == "compute1"
    assert lab.run("controller", "scontrol", "update", "NodeName=compute2", "State=RESUME").status == 0


def test_the_program_that_slurm_names_is_there_and_finds_a_well_node_well(lab: Lab) -> None:
    becomes(lab, "nodes at work", lambda now: all(each.startswith("idle") for each in now.values()))
    shown = lab.run("compute1", "scontrol", "show", "config").out
    (program,) = [line.split()[-1] for line in shown.splitlines() if line.startswith("HealthCheckProgram")]
    assert lab.run("compute1", program).status == 0
    assert states(lab)["compute1"].startswith("idle")
    assert lab.run("compute1", f"{program}.pyz", "--dry-run").status == 0
