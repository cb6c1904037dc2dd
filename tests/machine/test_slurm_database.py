"""A lab whose Slurm keeps ended jobs in MariaDB, by slurmdbd; both are killed while jobs run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "database"
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
    place = tmp_path_factory.mktemp("database")
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
