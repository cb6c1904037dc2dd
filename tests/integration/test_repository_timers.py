"""The role that has timers carry repositories, run by Ansible over an empty directory of units."""

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
filesystems: {disk: {type: lustre, path: /data, source: "10.0.0.1@tcp:/scratch"}}
repositories:
  archive: {library: data, bucket: s3://site/prod, export: {changed: hourly}, import: {names: 15m}}
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_timers_are_written_once_and_removed_with_the_spec(tmp_path: Path) -> None:
    needs("unshare", "mount")
    write_roles(tmp_path, parse_spec(SPEC), "repository")
    program = tmp_path / "gridwright"
    program.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    program.chmod(0o755)
    written, left, served = tmp_path / "written", tmp_path / "left", tmp_path / "served"
    names = ["gridwright-export-archive", "gridwright-import-archive"]
    loading = ["gridwright-serve-disk"]
    tasks: list[dict[str, Any]] = [
        {
            "block": [role("absent", "/no/such/gridwright", names)],
            "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}],
        },
        role("first", str(program), names),
        {"ansible.builtin.command": f"cp -a /etc/systemd/system {written}", "changed_when": False},
        role("second", str(program), names),
        role("fewer", str(program), names[:1]),
        {"ansible.builtin.command": f"cp -a /etc/systemd/system {left}", "changed_when": False},
        role("serving", str(program), names[:1], loading),
        {"ansible.builtin.command": f"cp -a /etc/systemd/system {served}", "changed_when": False},
        {
            # As an earlier release wrote it.
            "ansible.builtin.copy": {
                "content": "# Grid demo\n",
                "dest": "/etc/systemd/system/gridwright-close-archive.service",
            },
            "changed_when": False,
        },
        role("gone", str(program), []),
        {"ansible.builtin.command": "ls /etc/systemd/system", "register": "rest", "changed_when": False},
        {"ansible.builtin.assert": {"that": "rest.stdout == ''"}},
    ]

    said = " ".join(play(tmp_path, tasks, {"repository_carries": True}).split())

    assert "install gridwright[repository] on this machine" in said
    # Four files are written by two tasks, and one timer is removed with its service. A service comes by one
    # task, and all that are left go, also that of an older release.
    assert "changed=7 " in said, said
    assert "failed=0" in said
    units = {f"{name}.{kind}" for name in names for kind in ("service", "timer")}
    assert {each.name for each in written.iterdir()} == units
    assert f"{program} repo export archive" in (written / "gridwright-export-archive.service").read_text(
        "utf-8"
    )
    export = {each for each in units if "export" in each}
    assert {each.name for each in left.iterdir()} == export
    assert {each.name for each in served.iterdir()} == export | {f"{each}.service" for each in loading}
    assert f"{program} repo serve disk --directory /data" in (
        served / "gridwright-serve-disk.service"
    ).read_text("utf-8")


def role(called: str, program: str, names: list[str], serving: list[str] | None = None) -> dict[str, Any]:
    return {
        "name": called,
        "ansible.builtin.include_role": {"name": "repository"},
        "vars": {
            "repository_program": program,
            "gridwright_repositories": names,
            "gridwright_repository_carried": serving or [],
        },
    }
