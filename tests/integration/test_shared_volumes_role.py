"""Role shared_volumes run by Ansible, with doubles of iscsiadm and udevadm: twice, and with a volume away."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gridwright.providers.oci.files import VOLUMES
from tests.integration.test_oci_volumes_program import ATTACHED, DOUBLES, NAMES, Server
from tests.support.role_play import play

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="not as root: a role writes below /etc and /usr")

ROLE = Path(__file__).parents[2] / "src/gridwright/providers/oci/roles/shared_volumes"
OVER = (
    "unshare", "--mount", "sh", "-ec",
    'mkdir -p /usr/local/lib/gridwright /etc/gridwright; mount -t tmpfs a /usr/local/lib/gridwright; '
    'mount -t tmpfs b /etc/gridwright; exec "$@"', "sh",
)  # fmt: skip
"""A mount namespace with empty directories where the role writes."""


def prepared(directory: Path) -> None:
    """The role with its program, as a bundle has it."""
    there = directory / "roles/shared_volumes"
    for each in ROLE.rglob("*.yml"):
        to = there / each.relative_to(ROLE)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(each.read_text())
    (there / "files").mkdir()
    (there / "files/volumes.pyz").write_bytes(VOLUMES.archive())
    (there / "files" / VOLUMES.unit).write_text(VOLUMES.unit_text())


def run(directory: Path, server: Server) -> str:
    variables = {
        "shared_volumes_wanted": [{"name": f"v{at}", "device": name} for at, name in enumerate(NAMES)],
        "shared_volumes_attachments": server.attachments,
        "shared_volumes_wait": 0,
        "shared_volumes_packages": [],
        "shared_volumes_python": sys.executable,
    }
    tasks = [{"ansible.builtin.include_role": {"name": "shared_volumes"}}]
    environment = {"PATH": f"{DOUBLES}:{os.environ['PATH']}", "GRIDWRIGHT_ROOT": str(server.root)}
    return play(directory, tasks, variables, world=OVER, environment=environment)


def logins(server: Server) -> int:
    """How often iscsiadm was asked to log in."""
    return (server.root / "asked.log").read_text().count("--login")


@pytest.mark.thorough
def test_volumes_are_attached_once_and_what_lacks_is_said(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    prepared(tmp_path)
    (server.root / "etc/gridwright").mkdir(exist_ok=True)
    said = run(tmp_path, server)
    assert "failed=0" in said, said
    assert {name: server.target(name) for name in NAMES} == {each["device"]: each["iqn"] for each in ATTACHED}
    assert logins(server) == 3
    said = run(tmp_path, server)
    assert "failed=0" in said, said
    assert (
        len([each for each in (server.root / "asked.log").read_text().splitlines() if "--login" in each]) == 3
    )
    server.attachments = ATTACHED[1:]
    said = run(tmp_path, server)
    assert "failed=1" in said
    assert "v0 is not attached to this machine as /dev/oracleoci/oraclevdb" in json.dumps(said)
