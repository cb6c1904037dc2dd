"""slurmctld's node dies: the backup takes over, no job is lost or runs twice, and commands go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.command import Command, Ended, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "backup"
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.99.0.0/24}}
nodes:
  compute: {{count: 3, cores: 4, memory: 512 MiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm, backup_controller: true}}
"""
ONCE = 'sleep 2; echo "$GRIDWRIGHT_ARRAY_INDEX" >> /mnt/grid/began'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("backup")
    spec = place / "grid.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


def submitted(lab: Lab, *words: str) -> str:
    done = lab.command("submit", "--grid", lab.spec, "--json", "--directory", "/", *words)
    assert done.status == 0, done.err
    return str(done.json["job"])


def waited(lab: Lab, *jobs: str) -> Ended:
    return lab.command("wait", "--grid", lab.spec, *jobs)


def test_jobs_and_commands_go_on_while_the_node_of_slurmctld_is_off_and_once_it_is_back(lab: Lab) -> None:
    jobs = [submitted(lab, "--array", "1-30", "--", "sh", "-c", ONCE)]
    wait_until(
        lambda: lab.run("compute2", "cat", "/mnt/grid/began").out or None,
        seconds=20.0,
        what="the first jobs",
        last=lambda: lab.command("jobs", "--grid", lab.spec).out,
    )
    assert lab.fault("power-off", "controller").status == 0

    jobs.append(submitted(lab, "--", "true"))
    ended = waited(lab, *jobs)
    assert ended.status == 0, ended.out + ended.err
    lines = lab.run("compute2", "cat", "/mnt/grid/began").out.split()
    assert Counter(lines) == {str(index): 1 for index in range(1, 31)}
    assert "compute1" in lab.run("compute2", "scontrol", "ping").out
    assert lab.status().status == 3, "a grid whose controller is off is not whole"

    assert lab.fault("power-on", "controller").status == 0
    ping = lab.run("controller", "scontrol", "ping").out
    assert "Slurmctld(primary) at controller is UP" in ping
    assert "Slurmctld(backup) at compute1 is UP" in ping
    listed = lab.command("jobs", "--grid", lab.spec, "--json").json["jobs"]
    assert Counter(each["state"] for each in listed) == {"completed": 31}
    after = submitted(lab, "--", "true")
    assert waited(lab, after).status == 0
    wait_until(
        lambda: lab.status().status == 0 or None,
        seconds=30.0,
        what="a whole lab",
        last=lambda: lab.status().out,
    )
