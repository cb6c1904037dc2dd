"""The service that keeps history: only where the spec says so, a command that exists, and read by systemd."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from gridwright.cli.build.node import node
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.setup.services import HISTORY_UNIT, PROGRAM, history_unit
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec

FILE = f"roles/history/files/{HISTORY_UNIT}"


def spec_of(**fields: Any) -> GridSpec:
    values = {"name": "demo", "filesystems": {"shared": {"type": "local", "path": "/a 50% disk"}}}
    return parse_spec(json.dumps(values | fields), base=Path("/base"))


def test_nodes_and_servers_have_it_where_the_spec_says_so_and_nowhere_else() -> None:
    for hosts, groups in (
        (Hosts.named(compute=["a"]), ("compute", "head")),
        (Hosts.named(storage=["s"]), ("storage",)),
    ):
        wanted = playbook_files(spec_of(monitoring={"history": True}), hosts, groups=groups)
        assert FILE in wanted
        assert "gridwright_history: true" in str(wanted["group_vars/all.yml"])
        unwanted = playbook_files(spec_of(), hosts, groups=groups)
        assert FILE not in unwanted
        assert "gridwright_history:" not in str(unwanted["group_vars/all.yml"])


def test_what_it_runs_is_a_command_of_gridwright_with_each_directory_of_libraries() -> None:
    unit = history_unit(
        spec_of(libraries={"data": {"path": "d"}, "work": {"path": "w"}, "util": {"path": "u"}})
    )
    line = unit.split("ExecStart=")[1].splitlines()[0]
    command = [each.replace("%%", "%") for each in shlex.split(line)]
    assert command == [
        PROGRAM,
        "node",
        "history",
        "--library",
        "/a 50% disk/d",
        "--library",
        "/a 50% disk/w",
        "--library",
        "/a 50% disk/u",
    ]
    (history,) = [
        each for each in node.registered_commands if each.callback and each.callback.__name__ == "history"
    ]
    app = typer.Typer(add_completion=False)
    assert history.callback is not None
    app.command()(history.callback)
    known = {flag for parameter in typer.main.get_command(app).params for flag in parameter.opts}
    assert {each for each in command if each.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_reads_it(tmp_path: Path) -> None:
    unit = tmp_path / HISTORY_UNIT
    unit.write_text(history_unit(spec_of()).replace(PROGRAM, shutil.which("true") or "/bin/true"), "utf-8")
    judged = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in judged.stderr.splitlines() if "gridwright-" in line] == []
