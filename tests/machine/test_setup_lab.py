"""`gridwright setup` over ssh on a lab: nodes are set up once, and the kernel they share is left alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Command, wait_until
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root
METADATA = "169.254.169.254"
ASK = f"import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex(('{METADATA}', 80)))"
LIMITS = "/etc/security/limits.d/60-gridwright.conf"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("setup")
    # The first one may have to make the image.
    command = Command(directory)
    made = nodes_only(command, directory, "labsetup", "10.91.0.0/24")
    assert command("up", made.spec, seconds=280).status == 0
    with up(made):
        yield made


def test_nodes_are_set_up_over_ssh_and_a_second_run_changes_nothing(lab: Lab) -> None:
    swappiness = Path("/proc/sys/vm/swappiness").read_text()
    done = lab.command("setup", lab.spec, "--json", seconds=280)
    assert done.status == 0, done.err
    nodes = {node["name"]: node for node in done.json["nodes"]}
    assert set(nodes) == {"compute1", "compute2", "controller"}
    changed = {name: [each["where"] for each in node["changes"]] for name, node in nodes.items()}
    assert changed == {"compute1": [LIMITS], "compute2": [LIMITS], "controller": []}
    for node in nodes.values():
        assert "own-kernel" in {each["name"] for each in node["skipped"]}
    assert "* - nofile 500000" in lab.run("compute2", "cat", LIMITS).out

    again = lab.command("setup", lab.spec, "--json", seconds=280)
    assert again.status == 0, again.err
    assert [node["changes"] for node in again.json["nodes"]] == [[], [], []]
    assert Path("/proc/sys/vm/swappiness").read_text() == swappiness
    assert not Path(LIMITS).exists()


def test_a_node_that_is_dead_is_named_and_the_others_are_set_up(lab: Lab) -> None:
    assert lab.fault("power-off", "compute2").status == 0
    done = lab.command("setup", lab.spec, "--check", "--json", seconds=280)
    assert done.status == 3, done.err
    states = {node["name"]: node["state"] for node in done.json["nodes"]}
    assert states["compute2"] == "unreachable"
    assert states["compute1"] in ("ok", "changed")
    (failure,) = next(node["failures"] for node in done.json["nodes"] if node["name"] == "compute2")
    assert "compute2" in failure["message"]


def test_slurm_is_set_up_where_a_site_asks_for_it(tmp_path: Path) -> None:
    command = Command(tmp_path)
    made = nodes_only(command, tmp_path, "labslurm", "10.93.0.0/24")
    made.spec.write_text(made.spec.read_text().replace("type: ssh", "type: slurm"))
    key = tmp_path / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    chosen = tmp_path / "site.yml"
    chosen.write_text(
        f"gridwright_slurm_configure: true\nslurm_munge_key_file: {key}\n"
        f"gridwright_metadata: {{addresses: [{METADATA}]}}\n"
    )
    assert command("up", made.spec, seconds=280).status == 0
    with up(made):
        done = command("setup", made.spec, "--variables", chosen, "--json", seconds=280)
        assert done.status == 0, done.err
        seen = made.run("compute1", "stat", "--format", "%U %a %s", "/etc/munge/munge.key")
        assert seen.out.split() == ["munge", "400", "1024"]
        limits = made.run("compute2", "cat", "/etc/systemd/system/slurmd.service.d/60-gridwright.conf")
        assert "LimitNOFILE=500000" in limits.out
        configured = made.run("compute1", "cat", "/etc/slurm/slurm.conf").out
        assert configured == made.run("controller", "cat", "/etc/slurm/slurm.conf").out
        assert "NodeName=compute[1-2]" in configured

        again = command("setup", made.spec, "--variables", chosen, "--json", seconds=280)
        assert again.status == 0, again.err
        assert [node["changes"] for node in again.json["nodes"]] == [[], [], []]
        jobs_reach_neither_metadata_nor_key(made)


def jobs_reach_neither_metadata_nor_key(lab: Lab) -> None:
    """A job's user gets no credentials of the machine's role, and no key to be somebody else with."""
    assert lab.run("compute1", "ip", "address", "add", f"{METADATA}/32", "dev", "lo").status == 0
    server = f"cd /srv && setsid -f python3 -m http.server 80 --bind {METADATA} > /dev/null 2>&1"
    assert lab.run("compute1", "sh", "-c", server).status == 0
    wait_until(
        lambda: lab.run("compute1", "python3", "-c", ASK).out == "0\n" or None,
        seconds=20,
        what="an answer to root",
        last=lambda: lab.run("compute1", "python3", "-c", ASK),
    )
    job = ("srun", "--uid=nobody", "--chdir=/tmp", "--nodelist=compute1")
    asked = lab.run("controller", *job, "python3", "-c", ASK)
    assert asked.out == f"{errno.ECONNREFUSED}\n", asked.err
    read = lab.run("controller", *job, "cat", "/etc/munge/munge.key")
    assert read.status != 0
    assert "Permission denied" in read.err, read.err
