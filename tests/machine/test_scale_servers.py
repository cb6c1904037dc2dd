"""Spectrum Scale on nodes of a lab: real Ansible and ssh, real disks that pairs share, and real mounts.

Its commands are a double: what real packages refuse is known by IBM's manual alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import parse_spec
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, on, up
from tests.support.scale_double import lab as scale

pytestmark = [pytest.mark.root, pytest.mark.thorough]
ROLE = "spectrum_scale_server"
GRID = """\
provider: oci
nodes: {compute: {instance: VM.Standard2.16, count: 2}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    nsd: {instance: BM.Standard2.52, count: 2, disks: {type: balanced, count: 1}}
"""
SERVERS, NODES = [f"nsd{number}" for number in range(1, 5)], ["compute1", "compute2"]


@dataclass
class World:
    lab: Lab
    disks: dict[tuple[int, int], str]

    def played(self, pairs: int, clients: int, disks: int) -> str:
        """What Ansible printed that ran the role on the controller, over ssh."""
        cluster = scale.wanted(self.lab, pairs, clients, disks)
        hosts = [each.name for each in cluster.nodes]
        variables = {
            "gridwright_clusters": [{"name": "lake", "first": "nsd1", "document": cluster.document()}],
            "ansible_python_interpreter": "/usr/bin/python3",
            f"{ROLE}_kernel": scale.KERNEL,
            f"{ROLE}_tools": [],
        }
        play = {
            "hosts": "nsd1", "gather_facts": False, "vars": variables, "roles": [ROLE],
        }  # fmt: skip
        controller = scale.node(self.lab, "controller")
        controller.write("/srv/play/play.yml", json.dumps([play]))
        controller.write("/srv/play/hosts", "\n".join(hosts) + "\n")
        done = controller.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", "/srv/play/hosts", "/srv/play/play.yml"],
            environment={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                "ANSIBLE_NOCOLOR": "1", "ANSIBLE_ROLES_PATH": "/srv/play/roles",
            },
            timeout_s=240.0,
        )  # fmt: skip
        return done.stdout.decode() + done.stderr.decode()

    def mounted(self, name: str) -> bool:
        return scale.MOUNT_POINT in on(scale.node(self.lab, name), "cat", "/proc/mounts")

    def state(self, name: str) -> str:
        return str(json.loads(on(scale.node(self.lab, name), f"{scale.BIN}/mmnode", "look"))["state"])


def changed(printed: str) -> int:
    found = re.search(r"changed=(\d+) +unreachable=0 +failed=0", printed)
    assert found, printed
    return int(found[1])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    place = tmp_path_factory.mktemp("scale")
    command = Command(place)
    spec = place / "scale.yaml"
    spec.write_text(scale.SPEC.format(name="scaletest", clients=2, servers=4, network="10.94.0.0/24"))
    made = Lab(command, spec, "scaletest")
    with scale.shared_disks(place, 2, 3) as disks, up(made) as lab:
        scale.install(lab, [*SERVERS, *NODES])
        scale.attach(lab, disks, SERVERS)
        grid = parse_spec(GRID, base=place)
        controller = scale.node(lab, "controller")
        for path, content in playbook_files(grid, Hosts.named(compute=["localhost"])).items():
            if path.startswith(f"roles/{ROLE}/"):
                controller.write(f"/srv/play/{path}", content)
        try:
            yield World(lab, disks)
        finally:
            scale.unmount(lab, [*SERVERS, *NODES])


def test_a_pair_serves_survives_a_dead_server_and_grows(world: World) -> None:
    """One story, as each step needs the one before."""
    assert changed(world.played(1, 2, 2)) > 0
    assert all(world.mounted(name) for name in ("nsd1", "nsd2", *NODES))
    seen = on(scale.node(world.lab, "nsd1"), "/var/mmfs/etc/nsddevices")
    assert seen == "oracleoci/oraclevdb dmm\noracleoci/oraclevdc dmm\n"
    on(scale.node(world.lab, "compute1"), "sh", "-ec", f"echo kept > {scale.MOUNT_POINT}/file; sync")
    assert changed(world.played(1, 2, 2)) == 0

    # One of the pair dies: with tiebreaker disks the other one goes on, and nothing is unmounted.
    assert world.lab.fault("power-off", "nsd2").status == 0
    assert on(scale.node(world.lab, "compute2"), "cat", f"{scale.MOUNT_POINT}/file") == "kept\n"
    # A pair and disks join while it is dead.
    printed = world.played(2, 2, 3)
    assert changed(printed) > 0
    assert "node nsd2 does not answer" in printed
    assert "is not made yet: it needs nsd" in printed
    assert world.state("nsd1") == "active"
    assert world.mounted("compute2")
    assert world.mounted("nsd4")

    # It comes back, and has its disks, its vote and its mounts again.
    assert world.lab.fault("power-on", "nsd2").status == 0
    scale.attach(world.lab, world.disks, ["nsd2"])
    assert changed(world.played(2, 2, 3)) > 0
    assert world.mounted("nsd2")
    assert on(scale.node(world.lab, "compute2"), "cat", f"{scale.MOUNT_POINT}/file") == "kept\n"

    # Both of a pair die: its disks are gone, so clients lose the file system, and do not hang on it.
    for name in ("nsd3", "nsd4"):
        assert world.lab.fault("power-off", name).status == 0
    wait_until(
        lambda: not world.mounted("compute1") or None,
        seconds=20,
        what="the file system to go with its disks",
        last=lambda: world.state("compute1"),
    )
