"""The unit of the exporter is one that systemd takes, and holds any path as one word."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from gridwright.cli.watch.exporter import DEFAULT_PORT, exporter
from gridwright.errors import GridwrightError
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.setup.services import EXPORTER_ROLE, EXPORTER_UNIT, PROGRAM, SERVER_UNIT, exporter_unit
from gridwright.spec import parse_spec

GUARDED = {
    "listen": "0.0.0.0",  # noqa: S104 - nobody listens
    "tls": {"certificate": "/etc/50%.pem", "key": "/etc/a.key"},
    "token_file": "/etc/token",
    "proxy": {"addresses": ["10.0.0.5", "10.1.0.0/28"], "header": "X-Token"},
}


def test_a_path_is_one_word_whatever_is_in_it() -> None:
    unit = exporter_unit(["/usr/bin/true", "--directory", '/srv/50% "of" $all'])
    assert 'ExecStart=/usr/bin/true --directory "/srv/50%% \\"of\\" $$all"\n' in unit


def test_what_would_be_another_line_of_the_unit_is_refused() -> None:
    with pytest.raises(GridwrightError, match="no line feeds"):
        exporter_unit(["/usr/bin/true", "--directory", "/srv\nUser=root"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_takes_it_and_finds_it_little_exposed(tmp_path: Path) -> None:
    path = tmp_path / EXPORTER_UNIT
    path.write_text(exporter_unit(["/usr/bin/true", "exporter"]))
    for command in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=30"]):
        done = subprocess.run(
            ["systemd-analyze", *command, path], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def role_files(groups: tuple[str, ...] = ("compute", "head"), **monitoring: Any) -> dict[str, str]:
    spec = {
        "name": "demo",
        "filesystems": {"disk": {"type": "local", "path": "/a 50% disk"}},
        "libraries": {"data": {"path": "d"}, "work": {"path": "w"}},
        "monitoring": monitoring,
    }
    grid = parse_spec(json.dumps(spec), base=Path("/base"))
    files = playbook_files(grid, Hosts.named(compute=["a"], storage=["s"]), groups=groups)
    return {name: str(content) for name, content in files.items()}


def command_in(unit: str) -> list[str]:
    return [each.replace("%%", "%") for each in shlex.split(unit.split("ExecStart=")[1].splitlines()[0])]


def test_nodes_and_servers_have_it_where_the_spec_says_so_and_nowhere_else() -> None:
    for groups in (("compute", "head"), ("storage",)):
        wanted = role_files(groups, exporter={})
        assert wanted[f"roles/{EXPORTER_ROLE}/files/{EXPORTER_UNIT}"].startswith("# Grid demo\n")
        assert "gridwright_exporter:" in wanted["group_vars/all.yml"]
        unwanted = role_files(groups)
        assert not {name for name in unwanted if name.startswith(f"roles/{EXPORTER_ROLE}/files/")}
        assert "gridwright_exporter" not in unwanted["group_vars/all.yml"]


def test_it_runs_what_the_command_takes_and_servers_are_told_no_directories() -> None:
    files = role_files(exporter=GUARDED)
    server = command_in(files[f"roles/{EXPORTER_ROLE}/files/{SERVER_UNIT}"])
    assert server == shlex.split(
        f"{PROGRAM} exporter --port {DEFAULT_PORT} --listen 0.0.0.0 --certificate /etc/50%.pem "
        "--key /etc/a.key --token-file /etc/token --proxy 10.0.0.5 --proxy 10.1.0.0/28 --proxy-header X-Token"
    )
    node = command_in(files[f"roles/{EXPORTER_ROLE}/files/{EXPORTER_UNIT}"])
    assert node == [*server, "--directory", "/a 50% disk/d", "--directory", "/a 50% disk/w"]
    app = typer.Typer(add_completion=False)
    app.command()(exporter)
    known = {flag for parameter in typer.main.get_command(app).params for flag in parameter.opts}
    assert {each for each in node if each.startswith("--")} <= known


def test_the_role_is_told_each_file_that_a_machine_has_to_have() -> None:
    told = role_files(exporter=GUARDED)["group_vars/all.yml"]
    assert all(each in told for each in ("/etc/50%.pem", "/etc/a.key", "/etc/token"))
    assert "files: []" in role_files(exporter={})["group_vars/all.yml"]
