"""The role that makes a Spectrum Scale cluster, by a real Ansible and the double of its commands."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import parse_spec
from tests.support.role_play import play, write_roles
from tests.support.scale_double.command import install, read, write
from tests.support.scale_double.wanted import wanted_of

SPEC = """\
provider: oci
nodes: {compute: {instance: VM.Standard2.16, count: 2}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    nsd: {instance: BM.Standard2.52, count: 2, disks: {type: balanced, count: 1}}
"""
ROLE = "spectrum_scale_server"


def played(place: Path, pairs: int) -> str:
    """What Ansible printed of the role; its first server is this machine."""
    wanted = wanted_of(place, pairs, 2, 2)
    variables = {
        "gridwright_clusters": [
            {"name": "lake", "first": "localhost", "document": wanted.document()},
            {"name": "elsewhere", "first": "another", "document": {}},
        ],
        f"{ROLE}_bin": str(place / "bin"),
        f"{ROLE}_programs": str(place / "programs"),
        f"{ROLE}_described": str(place / "etc"),
        f"{ROLE}_lock": str(place / "lock"),
    }
    tasks = [{"name": "Serve", "ansible.builtin.include_role": {"name": ROLE}}]
    return play(
        place, tasks, variables, world=(), environment={"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    )


def changed(printed: str) -> int:
    found = re.search(r"changed=(\d+)", printed)
    assert found, printed
    assert "failed=0" in printed, printed
    return int(found[1])


def test_packages_are_there_before_the_cluster_is_made(tmp_path: Path) -> None:
    files = playbook_files(parse_spec(SPEC, base=tmp_path), Hosts.named(compute=["localhost"]))
    site = str(files["site.yml"])
    assert 0 < site.index("name: spectrum_scale_client") < site.index("name: spectrum_scale_server")


@pytest.mark.thorough
def test_a_cluster_is_made_once_grows_and_a_dead_server_is_told(tmp_path: Path) -> None:
    write_roles(tmp_path, parse_spec(SPEC, base=tmp_path), ROLE)
    install(tmp_path / "bin", state := tmp_path / "state.json")

    assert changed(played(tmp_path, 1)) > 0
    cluster = read(state)
    assert set(cluster.filesystems["lake"].mounted) == {"nsd1", "nsd2", "node1", "node2"}
    calls = len(cluster.calls)

    assert changed(played(tmp_path, 1)) == 0
    assert len(read(state).calls) == calls

    assert changed(played(tmp_path, 2)) > 0
    assert set(read(state).filesystems["lake"].mounted) >= {"nsd3", "nsd4"}
    assert changed(played(tmp_path, 2)) == 0

    cluster = read(state)
    cluster.nodes["nsd2"].daemon = False
    write(state, cluster)
    assert changed(played(tmp_path, 2)) > 0
    assert read(state).state_of("nsd2") == "active"
