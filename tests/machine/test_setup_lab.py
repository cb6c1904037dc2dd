"""`gridwright setup` over ssh: a lab's nodes are set up once, and the kernel they share is left alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, wait_until
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root
METADATA = "169.254.169.254"
ASK = f"import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex(('{METADATA}', 80)))"
Nodes = dict[str, dict[str, Any]]
LIMITS = "/etc/security/limits.d/60-gridwright.conf"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab on which a site asks for its Slurm, too, with a key of its own."""
    directory = tmp_path_factory.mktemp("setup")
    command = Command(directory)
    made = nodes_only(command, directory, "labsetup", "10.91.0.0/24")
    made.spec.write_text(made.spec.read_text().replace("type: ssh", "type: slurm"))
    key = directory / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    chosen(made).write_text(
        f"gridwright_slurm_configure: true\nslurm_munge_key_file: {key}\n"
        f"gridwright_metadata: {{addresses: [{METADATA}]}}\n"
    )
    # The first one may have to make the image.
    assert command("up", made.spec, seconds=280).status == 0
    with up(made):
        yield made


def chosen(lab: Lab) -> Path:
    """What the site chose."""
    return lab.spec.with_name("site.yml")


def set_up(lab: Lab) -> Nodes:
    """Set the nodes up; what became of them."""
    done = lab.command("setup", lab.spec, "--variables", chosen(lab), "--json", seconds=280)
    assert done.status == 0, done.err
    return {node["name"]: node for node in done.json["nodes"]}


@pytest.fixture(scope="module")
def swappiness() -> str:
    """A setting of this machine's kernel, which the nodes share, as it was before."""
    return Path("/proc/sys/vm/swappiness").read_text()


@pytest.fixture(scope="module")
def nodes(lab: Lab, swappiness: str) -> Nodes:
    """What became of the nodes when they were set up for the first time."""
    assert swappiness
    return set_up(lab)


def test_nodes_are_set_up_over_ssh(lab: Lab, nodes: Nodes) -> None:
    assert set(nodes) == {"compute1", "compute2", "controller"}
    limited = {name for name, node in nodes.items() if LIMITS in (each["where"] for each in node["changes"])}
    assert limited == {"compute1", "compute2"}
    for node in nodes.values():
        assert "own-kernel" in {each["name"] for each in node["skipped"]}
    assert "* - nofile 500000" in lab.run("compute2", "cat", LIMITS).out

    seen = lab.run("compute1", "stat", "--format", "%U %a %s", "/etc/munge/munge.key")
    assert seen.out.split() == ["munge", "400", "1024"]
    limits = lab.run("compute2", "cat", "/etc/systemd/system/slurmd.service.d/60-gridwright.conf")
    assert "LimitNOFILE=500000" in limits.out
    configured = lab.run("compute1", "cat", "/etc/slurm/slurm.conf").out
    assert configured == lab.run("controller", "cat", "/etc/slurm/slurm.conf").out
    assert "NodeName=compute[1-2]" in configured
    assert not Path(LIMITS).exists()


def test_a_jobs_user_reaches_neither_metadata_nor_key(lab: Lab, nodes: Nodes) -> None:
    """A job's user gets no credentials of the machine's role, and no key to be somebody else with."""
    assert "compute1" in nodes
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
    assert lab.run("compute1", "python3", "-c", ASK).out == "0\n", "the server answers root all the time"
    read = lab.run("controller", *job, "cat", "/etc/munge/munge.key")
    assert read.status != 0
    assert "Permission denied" in read.err, read.err


def test_a_node_that_is_dead_is_named_and_a_second_run_changes_nothing_on_the_others(
    lab: Lab, nodes: Nodes, swappiness: str
) -> None:
    assert nodes["compute1"]["changes"]
    assert lab.fault("power-off", "compute2").status == 0
    done = lab.command("setup", lab.spec, "--variables", chosen(lab), "--json", seconds=280)
    assert done.status == 3, done.err
    again = {node["name"]: node for node in done.json["nodes"]}
    assert again["compute2"]["state"] == "unreachable"
    (failure,) = again["compute2"]["failures"]
    assert "compute2" in failure["message"]
    assert {name: again[name]["changes"] for name in ("compute1", "controller")} == {
        "compute1": [],
        "controller": [],
    }
    assert {again[name]["state"] for name in ("compute1", "controller")} == {"ok"}
    assert Path("/proc/sys/vm/swappiness").read_text() == swappiness
