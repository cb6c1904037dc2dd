"""The playbook run for real by nodes of a lab, under each release of Ansible that their Python can run."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.lab import power
from gridwright.providers.lab.services import Node, nodes_of
from tests.support.ansible_releases import RELEASES, Release
from tests.support.command import Command
from tests.support.lab import Lab, nodes_only, printed, up

pytestmark = [pytest.mark.root, pytest.mark.thorough]
NAME = "labreleases"
OF_NODES = [release for release in RELEASES if release.oldest <= 11 <= release.newest]
"""Nodes have the Python of Debian 12."""
USERS = """
users: {groups: {risk: 3001}, homes: {filesystem: shared}, local: {anna: {uid: 2001, groups: [risk]}}}
"""
SITE = """\
gridwright_slurm_configure: true
slurm_munge_key_file: /opt/munge.key
gridwright_metadata: {addresses: [169.254.169.254]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("releases")
    made = nodes_only(Command(directory), directory, NAME, "10.85.0.0/24", count=len(OF_NODES))
    made.spec.write_text(made.spec.read_text().replace("type: ssh", "type: slurm") + USERS)
    with up(made):
        yield made


@pytest.fixture(scope="module")
def playbook(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("playbook") / "grid"
    done = lab.command("render", lab.spec, "--out", directory)
    assert done.status == 0, done.err
    (directory / "site_variables.yml").write_text(SITE)
    return directory


@pytest.mark.parametrize("release", OF_NODES, ids=lambda release: release.name)
def test_a_node_sets_itself_up_and_a_second_run_changes_nothing(
    lab: Lab, playbook: Path, release: Release
) -> None:
    name = f"compute{OF_NODES.index(release) + 1}"
    node = dict(nodes_of(power.record_of(lab.name)))[name]
    put(node, release.packages, "/opt/ansible")
    put(node, playbook, "/opt/playbook")
    key = os.urandom(1024)
    printed(node.run(["sh", "-c", "umask 077; cat > /opt/munge.key"], stdin=key))
    first = run_playbook(node, name)
    assert first > 0
    assert node.run(["head", "-c", "1024", "/etc/munge/munge.key"]).stdout == key
    assert b"gridwright_metadata" in node.run(["nft", "list", "tables"]).stdout
    assert run_playbook(node, name) == 0


def put(node: Node, source: Path, where: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(source, arcname=".")
    unpack = f"rm -rf {where} && mkdir -p {where} && tar --extract --directory {where}"
    printed(node.run(["sh", "-c", unpack], stdin=packed.getvalue(), timeout_s=120))


def run_playbook(node: Node, name: str) -> int:
    """How many tasks changed something."""
    command = (
        "cd /opt/playbook && export LC_ALL=C.UTF-8 ANSIBLE_NOCOLOR=1 PYTHONPATH=/opt/ansible && "
        f"python3 -m ansible playbook -i inventory.yml --connection local --limit {name} "
        "--extra-vars gridwright_become=false --extra-vars @site_variables.yml site.yml"
    )
    done = node.run(["sh", "-c", command], timeout_s=280)
    text = done.stdout.decode()
    assert done.status == 0, text[-3000:] + done.stderr.decode()
    found = re.search(r"changed=(\d+)", text)
    assert found
    return int(found[1])
