"""The role that has a service watch, run by Ansible over an empty directory of units."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import parse_spec
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


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_the_unit_is_written_once_and_removed_with_the_spec(tmp_path: Path) -> None:
    needs("unshare", "mount")
    for name, content in playbook_files(parse_spec(SPEC), Hosts.named(compute=["localhost"])).items():
        if name.startswith("roles/watch/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(str(content), "utf-8")
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

    said = " ".join(play(tmp_path, tasks).split())

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


def play(directory: Path, tasks: list[dict[str, Any]]) -> str:
    """Run tasks on this machine, in a mount namespace; what Ansible printed."""
    file = directory / "play.yml"
    variables = {
        "gridwright_grid": "demo",
        "ansible_facts": {"service_mgr": "none"},
        "ansible_python_interpreter": sys.executable,
    }
    head = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    file.write_text(json.dumps([head]), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    world = ["unshare", "--mount", "sh", "-ec", WORLD, str(directory / "etc")]
    command = [*world, sys.executable, "-m", "ansible", "playbook"]
    done = subprocess.run(
        [*command, "-i", "localhost,", "--connection", "local", file],
        env={
            **kept, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_ROLES_PATH": str(directory / "roles"),
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
