"""Timers that carry repositories: what they run, when, and that systemd reads them as they are meant."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gridwright.cli.data.repo import repo
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.setup.services import PROGRAM, quoted, repository_units, timers
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec

NFS = {"shared": {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}}
FSX = {"shared": {"type": "fsx-lustre", "path": "/shared", "capacity": "2400 GiB"}}
CLOUD = {
    "provider": "aws",
    "region": "us-east-1",
    "nodes": {"compute": {"instance": "m5n.8xlarge"}},
    "scheduler": {"type": "slurm"},
}
BOTH = {
    "library": "data",
    "path": "/what a 50% name",
    "bucket": "s3://site/prod",
    "endpoint": "https://s3.example.com",
    "export": {"changed": "hourly", "deletions": True},
    "import": {"names": "15m", "contents": True},
}


def spec_of(repositories: dict[str, Any], **fields: Any) -> GridSpec:
    values = {"name": "demo", "filesystems": NFS, **fields, "repositories": repositories}
    return parse_spec(json.dumps(values), base=Path("/base"))


def test_each_way_has_a_service_and_a_timer_of_its_own() -> None:
    spec = spec_of(
        {
            "archive": BOTH,
            "by-hand": {"library": "work", "bucket": "s3://site/work"},
            "out": {"library": "util", "bucket": "s3://site/util", "export": {"changed": "daily"}},
        }
    )

    assert timers(spec) == ["gridwright-export-archive", "gridwright-import-archive", "gridwright-export-out"]
    units = repository_units(spec)
    assert "OnCalendar=hourly\nPersistent=true\n" in units["gridwright-export-archive.timer"]
    assert "OnUnitActiveSec=900s\n" in units["gridwright-import-archive.timer"]
    assert "OnCalendar=daily\n" in units["gridwright-export-out.timer"]
    export, names = (units[f"gridwright-{verb}-archive.service"] for verb in ("export", "import"))
    assert "--deletions" in export
    assert "--deletions" not in names
    assert "--contents" in names
    assert "--contents" not in export
    assert export.split("flock ")[1].split()[0] == names.split("flock ")[1].split()[0]


def test_what_a_service_runs_is_a_command_of_gridwright() -> None:
    import shlex

    units = repository_units(spec_of({"archive": BOTH}))
    for verb in ("export", "import"):
        line = units[f"gridwright-{verb}-archive.service"].split("ExecStart=")[1].splitlines()[0]
        command = [each.replace("%%", "%") for each in shlex.split(line)][2:]
        assert command[:4] == [PROGRAM, "repo", verb, "archive"]
        assert command[command.index("--directory") + 1] == "/shared/data/what a 50% name"
        assert command[command.index("--bucket") + 1] == "s3://site/prod"
        known = {flag for each in repo.registered_commands if each.name == verb for flag in _flags(each)}
        assert {each for each in command if each.startswith("--")} <= known


def _flags(command: Any) -> set[str]:
    import typer

    app = typer.Typer(add_completion=False)
    app.command()(command.callback)
    return {flag for parameter in typer.main.get_command(app).params for flag in parameter.opts}


def test_what_a_file_system_carries_has_no_timer() -> None:
    linked = BOTH | {"export": {"changed": "at-once"}, "import": {"names": "never"}}
    del linked["endpoint"]
    assert repository_units(spec_of({"archive": linked}, filesystems=FSX, **CLOUD)) == {}


def test_a_region_of_the_spec_is_that_of_the_bucket() -> None:
    (export, _) = repository_units(spec_of({"archive": BOTH | {"import": {}}}, **CLOUD)).values()
    (without, _) = repository_units(spec_of({"archive": BOTH | {"import": {}}})).values()

    assert "Environment=HOME=/root AWS_REGION=us-east-1\n" in export
    assert "Environment=HOME=/root\n" in without


def test_servers_of_file_systems_carry_nothing() -> None:
    spec = spec_of({"archive": BOTH})
    unit = "roles/repository/files/gridwright-export-archive.timer"

    assert unit in playbook_files(spec, Hosts.named(compute=["a"], head=["b"]))
    servers = playbook_files(spec, Hosts.named(storage=["s"]), groups=("storage",))
    assert unit not in servers
    assert "gridwright_repositories" not in str(servers["group_vars/all.yml"])


@pytest.mark.parametrize(
    "text", ["/plain", "/with space", '/quo"te', "/back\\slash", "/100%n", "/$HOME", "/it's"]
)
def test_arguments_are_quoted(text: str) -> None:
    assert ("%" in text) == ("%%" in quoted(text))
    assert ("$" in text) == ("$$" in quoted(text))
    assert (" " in text) <= quoted(text).startswith('"')


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_reads_them(tmp_path: Path) -> None:
    program = shutil.which("true") or "/bin/true"
    for name, text in repository_units(spec_of({"archive": BOTH})).items():
        (tmp_path / name).write_text(text.replace(PROGRAM, program), "utf-8")
    units = sorted(map(str, tmp_path.glob("*.timer"))) + sorted(map(str, tmp_path.glob("*.service")))

    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    about = [line for line in found.stderr.splitlines() if str(tmp_path) in line or "gridwright-" in line]
    assert about == []
