"""The role that has a service watch, run by Ansible over an empty directory of units."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gridwright.spec import parse_spec
from tests.support.role_play import play, write_roles
from tests.support.skips import needs

SPEC = """\
name: demo
filesystems: {disk: {type: local, path: /data}}
monitoring: {watch: {mail: {to: [ops@example.org]}}}
"""
WORLD = """\
cp -a /etc "$0"; mount --bind "$0" /etc; rm -rf /etc/systemd/system/*
mount -t tmpfs state /var/lib
exec "$@"
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_the_unit_is_written_once_and_removed_with_the_spec(tmp_path: Path) -> None:
    needs("unshare", "mount")
    write_roles(tmp_path, parse_spec(SPEC), "watch")
    program = tmp_path / "gridwright"
    program.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    program.chmod(0o755)
    units, specs, home = tmp_path / "units", tmp_path / "specs", tmp_path / "watch-home"
    tasks: list[dict[str, Any]] = [
        {
            "block": [role("absent", "/no/such/gridwright")],
            "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}],
        },
        role("first", str(program)),
        {"ansible.builtin.command": f"cp -a /etc/systemd/system {units}", "changed_when": False},
        {"ansible.builtin.command": f"cp -a /etc/gridwright/watch {specs}", "changed_when": False},
        {"ansible.builtin.command": f"cp -a /var/lib/gridwright-watch {home}", "changed_when": False},
        role("second", str(program)),
        role("elsewhere", str(program), here=False),
        {"ansible.builtin.command": "ls /etc/systemd/system /etc/gridwright/watch", "register": "rest",
         "changed_when": False},
        {"ansible.builtin.assert": {"that": "'demo' not in rest.stdout"}},
    ]  # fmt: skip

    world = ["unshare", "--mount", "sh", "-ec", WORLD, str(tmp_path / "etc")]
    said = " ".join(play(tmp_path, tasks, world=world).split())

    assert "install gridwright on this machine" in said
    # Account, directory, configuration, key, what it opens; directory, spec and unit, which one task removes.
    assert "changed=9 " in said, said
    assert "failed=0" in said
    (unit,) = units.iterdir()
    assert unit.name == "gridwright-watch-demo.service"
    assert f"ExecStart={program} watch /etc/gridwright/watch/demo.yaml" in unit.read_text("utf-8")
    assert "\nUser=gridwright-watch\n" in unit.read_text("utf-8")
    public = (home / ".ssh" / "id_ed25519.pub").read_text("utf-8")
    assert (home / ".ssh" / "authorized_keys").read_text("utf-8") == f"restrict {public}"
    key = (home / ".ssh" / "id_ed25519").stat()
    assert (key.st_mode & 0o777, key.st_uid) == (0o600, home.stat().st_uid) and key.st_uid != 0
    assert parse_spec((specs / "demo.yaml").read_text("utf-8")).monitoring.watch is not None


def role(called: str, program: str, *, here: bool = True) -> dict[str, Any]:
    return {
        "name": called,
        "ansible.builtin.include_role": {"name": "watch"},
        "vars": {
            "watch_program": program,
            "gridwright_watch": "gridwright-watch-demo",
            "watch_here": here,
        },
    }
