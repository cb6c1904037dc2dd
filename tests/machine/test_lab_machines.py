"""Machines beside the nodes of a lab: with its network, its mounts and its settings, and without Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gridwright.spec.hosts import expand_hosts
from tests.support.command import Command
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

SPEC = """\
name: labmachines
provider: lab
lab: {network: 10.96.7.0/24}
nodes:
  compute: {count: 1, cores: 2, memory: 1 GiB}
machines:
  meta: {}
  mid-tier: {mounts: false}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 1}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
setup:
  after: [./roles/product]
  only_on: {product: [mid-tier]}
"""
TASK = """\
---
- name: Leave a mark
  ansible.builtin.copy:
    dest: /etc/product
    content: "here\\n"
    mode: "0644"
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("machines")
    (directory / "roles/product/tasks").mkdir(parents=True)
    (directory / "roles/product/tasks/main.yml").write_text(TASK)
    spec = directory / "grid.yaml"
    spec.write_text(SPEC)
    made = Lab(Command(directory), spec, "labmachines")
    # The first one may have to make the image.
    ended = made.command("up", spec, seconds=280)
    assert ended.status == 0, ended.err
    with up(made):
        yield made


def nodes_of(check: dict[str, Any]) -> list[str]:
    return expand_hosts(check["nodes"]) if check["nodes"] else []


def processes(lab: Lab, node: str) -> set[str]:
    return set(lab.run(node, "ps", "-e", "-o", "comm=").out.split())


def test_they_are_in_the_network_with_the_mounts_and_without_the_scheduler(lab: Lab) -> None:
    status = lab.status().json
    assert status["whole"] is True
    roles = {each["name"]: each["role"] for each in status["nodes"]}
    assert roles == {
        "controller": "controller",
        "compute1": "compute",
        "storage1": "storage",
        "meta1": "machine",
        "mid-tier1": "machine",
    }
    lab.run("compute1", "sh", "-c", "echo from a node > /mnt/grid/file")
    assert lab.run("meta1", "cat", "/mnt/grid/file").out == "from a node\n"
    assert lab.run("mid-tier1", "findmnt", "/mnt/grid").status == 1
    assert {"slurmd", "munged"} <= processes(lab, "compute1")
    for machine in ("meta1", "mid-tier1"):
        assert not {"slurmd", "munged", "slurmctld"} & processes(lab, machine)
        # By name, as every machine has all names in /etc/hosts.
        assert lab.run("compute1", "ping", "-c1", "-W2", machine).status == 0
    assert lab.run("controller", "sinfo", "-hN", "-o", "%N").out.split() == ["compute1"]


def test_the_doctor_looks_at_them_and_asks_them_nothing_of_slurm(lab: Lab) -> None:
    ended = lab.command("doctor", lab.spec, "--json")
    assert ended.status == 0, ended.err
    checks = ended.json["checks"]
    of = {node for each in checks for node in nodes_of(each)}
    assert of == {"compute1", "meta1", "mid-tier1"}
    found = [each for each in checks if not each["ok"] and each["level"] != "info"]
    assert not found, found
    down = [each for each in checks if each["name"] == "node-down"]
    judged = {node for each in down if each["applies"] for node in nodes_of(each)}
    assert judged == {"compute1"}
    missing = {node for each in checks if each["name"] == "library-missing" for node in nodes_of(each)}
    assert "mid-tier1" not in missing
    only = lab.command("doctor", lab.spec, "--nodes", "meta1", "--json")
    assert {node for each in only.json["checks"] for node in nodes_of(each)} == {"meta1"}


def test_a_role_of_the_site_runs_on_one_group_of_them_with_the_settings_of_nodes(lab: Lab) -> None:
    done = lab.command("setup", lab.spec, "--limit", "compute1,meta1,mid-tier1", "--json", seconds=280)
    assert done.status == 0, done.err
    nodes = {each["name"]: each for each in done.json["nodes"]}
    marked = {name for name in nodes if lab.run(name, "cat", "/etc/product").status == 0}
    assert marked == {"mid-tier1"}
    limits = [lab.run(name, "cat", "/etc/security/limits.d/60-gridwright.conf").out for name in nodes]
    assert len(set(limits)) == 1
    assert "nofile" in limits[0]
