"""Role lustre_targets run by Ansible, with scripts for Lustre's tools: twice, and with a foreign disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.oci.files import TARGETS
from tests.integration.test_oci_targets_program import ADDRESS, NAMES, LustreServer
from tests.integration.test_shared_volumes_role import OVER
from tests.support.oci_instance import OciInstance
from tests.support.role_play import play
from tests.support.skips import needs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="not as root: a role writes below /etc and /usr")

ROLE = Path(__file__).parents[2] / "src/gridwright/providers/oci/roles/lustre_targets"
# The `mount` of the machine is one of the scripts.
WORLD = tuple(each.replace("mount -t", "/usr/bin/mount -t") for each in OVER)


@pytest.fixture
def cloud() -> Iterator[OciInstance]:
    found = OciInstance()
    yield found
    found.close()


def prepared(directory: Path) -> None:
    """The role with its program, as a bundle has it."""
    there = directory / "roles/lustre_targets"
    for each in ROLE.rglob("*.yml"):
        to = there / each.relative_to(ROLE)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(each.read_text())
    (there / "files").mkdir()
    (there / "files/targets.pyz").write_bytes(TARGETS.archive())
    (there / "files" / TARGETS.unit).write_text(TARGETS.unit_text())


def run(directory: Path, server: LustreServer) -> str:
    # As group_vars have it: by the name of the machine.
    wanted = {
        **{"schema": 1, "grid": "demo", "name": "shared-mds1", "address": ADDRESS, "mgs": f"{ADDRESS}@tcp"},
        "targets": [server.target(name) for name in NAMES],
        "directories": {name: str(server.machine / name) for name in ("dev", "modprobe", "run", "mounts")},
    }
    variables = {
        "gridwright_lustre_targets": {"localhost": wanted},
        "lustre_targets_python": sys.executable,
    }
    environment = {
        **server.cloud.environment,
        "PATH": f"{server.machine}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
        "GRIDWRIGHT_ROOT": str(server.machine),
        "WORLD": str(server.world),
        "MACHINE": str(server.machine),
    }
    tasks = [{"ansible.builtin.include_role": {"name": "lustre_targets"}}]
    return play(directory, tasks, variables, world=WORLD, environment=environment)


def test_targets_are_made_once_and_what_holds_something_is_said(tmp_path: Path, cloud: OciInstance) -> None:
    needs("mke2fs")
    server = LustreServer(tmp_path / "world", cloud)
    prepared(tmp_path)
    said = run(tmp_path, server)
    assert "failed=0" in said, said
    assert len(server.commands("mkfs.lustre")) == 2
    said = run(tmp_path, server)
    assert "failed=0" in said, said
    task = said[said.index("Start the targets") :]
    assert task.startswith("Start the targets") and "ok: [localhost]" in task.partition("TASK")[0], said
    assert len(server.commands("mkfs.lustre")) == 2
    other = LustreServer(tmp_path / "world", cloud, "second")
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "payroll", str(server.volume(NAMES[1]))]
    subprocess.run(command, check=True, capture_output=True)
    said = run(tmp_path, other)
    assert "failed=1" in said
    assert "holds ext4 labelled" in said
