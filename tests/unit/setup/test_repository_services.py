"""Services that load what is read of repositories: where and what they run, and that systemd reads them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from gridwright.cli.data.repo import repo
from gridwright.errors import GridwrightError
from gridwright.setup.playbook import Hosts, changelog_variables, playbook_files
from gridwright.setup.services import (
    PROGRAM,
    carried_services,
    copytool_unit,
    repository_units,
    service_variables,
)
from gridwright.spec import parse_spec
from gridwright.spec.linked import changelog_user
from gridwright.spec.model import GridSpec

DISK = {"type": "local", "path": "/data"}
LUSTRE = {"type": "lustre", "path": "/lustre", "source": "10.0.0.1@tcp:/scratch"}
NFS = {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}
ARCHIVE = {"library": "data", "path": "/what a 50% name", "bucket": "s3://site/prod"}


def spec_of(filesystem: dict[str, Any], **fields: Any) -> GridSpec:
    values = {"name": "demo", "filesystems": {"shared": filesystem}, "repositories": {"archive": ARCHIVE}}
    return parse_spec(json.dumps(values | fields), base=Path("/base"))


def test_each_kind_is_served_where_its_readers_can_be_held_back() -> None:
    assert service_variables(spec_of(LUSTRE)) == {
        "gridwright_repository_carried": ["gridwright-serve-shared"]
    }
    # Nothing holds back a reader of these.
    assert service_variables(spec_of(DISK)) == service_variables(spec_of(NFS)) == {}
    assert service_variables(spec_of(LUSTRE, repositories={})) == {}


def test_what_a_service_runs_is_a_command_of_gridwright() -> None:
    unit = carried_services(spec_of(LUSTRE))["gridwright-serve-shared.service"]
    line = unit.split("ExecStart=")[1].splitlines()[0]
    command = [each.replace("%%", "%") for each in shlex.split(line)]
    assert command[:4] == [PROGRAM, "repo", "serve", "shared"]
    assert command[command.index("--directory") + 1].endswith("/what a 50% name")
    (serve,) = [each for each in repo.registered_commands if each.name == "serve"]
    app = typer.Typer(add_completion=False)
    assert serve.callback is not None
    app.command()(serve.callback)
    known = {flag for parameter in typer.main.get_command(app).params for flag in parameter.opts}
    assert {each for each in command if each.startswith("--")} <= known
    assert command[-4:] == ["--bucket", "s3://site/prod", "--hsm-archive", "1"]


def test_one_service_has_all_repositories_of_a_lustre() -> None:
    """Its metadata servers know one agent of a client."""
    more = {**ARCHIVE, "path": "/more", "bucket": "s3://other/more", "hsm_archive": 2}
    spec = spec_of(
        LUSTRE,
        filesystems={"shared": LUSTRE, "second": {**LUSTRE, "path": "/second", "source": "10.0.0.2@tcp:/b"}},
        libraries={
            "data": {"filesystem": "shared"},
            "work": {"filesystem": "second"},
            "util": {"filesystem": "second"},
        },
        repositories={
            "archive": {**ARCHIVE, "endpoint": "https://store.example.org"},
            "more": more,
            "elsewhere": {**more, "library": "work", "bucket": "s3://third/x"},
        },
    )
    units = carried_services(spec)
    assert set(units) == {"gridwright-serve-shared.service", "gridwright-serve-second.service"}
    unit = units["gridwright-serve-shared.service"]
    command = shlex.split(unit.split("ExecStart=")[1].splitlines()[0])
    assert [value for flag, value in pairwise(command) if flag == "--hsm-archive"] == ["1", "2"]
    # Of the second one it is AWS's own.
    assert [value for flag, value in pairwise(command) if flag == "--endpoint"] == [
        "https://store.example.org", ""
    ]  # fmt: skip
    assert len(shlex.split(unit.split("RequiresMountsFor=")[1].splitlines()[0])) == 2
    assert "--endpoint" not in units["gridwright-serve-second.service"]


def test_servers_of_file_systems_serve_no_repository() -> None:
    unit = "roles/repository/files/gridwright-serve-shared.service"
    spec = spec_of(LUSTRE)
    assert unit in playbook_files(spec, Hosts.named(compute=["a"], head=["b"]))
    servers = playbook_files(spec, Hosts.named(storage=["s"]), groups=("storage",))
    assert unit not in servers
    assert "gridwright_repository_carried" not in str(servers["group_vars/all.yml"])


def test_a_directory_that_units_cannot_name_is_refused() -> None:
    with pytest.raises(GridwrightError, match="no line feeds"):
        copytool_unit("archive", ["/b", "/a\nExecStart=x"], ["gridwright"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_reads_them(tmp_path: Path) -> None:
    program = shutil.which("true") or "/bin/true"
    for name, text in carried_services(spec_of(LUSTRE)).items():
        (tmp_path / name).write_text(text.replace(PROGRAM, program), "utf-8")
    units = sorted(map(str, tmp_path.glob("*.service")))
    judged = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in judged.stderr.splitlines() if "gridwright-" in line]
    # Releases before 254 do not know it, and let it be.
    assert [line for line in said if "FileDescriptorStorePreserve" not in line] == []


def test_an_export_by_changelogs_is_told_who_is_registered() -> None:
    export = {"changed": "15m", "by": "changelog"}
    spec = spec_of(LUSTRE, repositories={"archive": {**ARCHIVE, "export": export}})
    service = repository_units(spec)["gridwright-export-archive.service"]
    assert " --changelog /etc/gridwright/changelog-archive.json" in service
    assert changelog_variables(spec)["gridwright_changelogs"] == [
        {
            "repository": "archive", "filesystem": "scratch", "mount": "/lustre",
            "user": changelog_user(spec, "archive"),
        }
    ]  # fmt: skip
    # Users of an earlier spec go, and nothing is said where no file system has changelogs.
    assert changelog_variables(spec_of(LUSTRE)) == {"gridwright_changelogs": []}
    assert changelog_variables(spec_of(NFS)) == {}
    scans = spec_of(LUSTRE, repositories={"archive": {**ARCHIVE, "export": {"changed": "15m"}}})
    assert "--changelog" not in repository_units(scans)["gridwright-export-archive.service"]
