"""The service that watches a grid: what it runs, as whom, and that systemd reads it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from gridwright.cli.watch.watch import watch
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.setup.services import PROGRAM, SPECS, watch_files, watch_unit, watch_variables
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec

WATCH = {"mail": {"to": ["ops@example.org"]}}
NODES = {
    "provider": "site",
    "nodes": {"compute": {"hosts": "node[1-4]"}},
    "filesystems": {"shared": {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}},
    "scheduler": {"type": "slurm"},
}


def spec_of(monitoring: dict[str, Any] | None, **fields: Any) -> GridSpec:
    values = {
        "name": "demo",
        **NODES,
        **({"monitoring": {"watch": monitoring}} if monitoring is not None else {}),
    }
    return parse_spec(json.dumps(values | fields), base=Path("/base"))


def test_the_unit_runs_a_command_of_gridwright_with_the_spec_that_is_beside_it() -> None:
    unit = watch_unit(spec_of(WATCH))
    assert unit is not None
    command = shlex.split(unit.split("ExecStart=")[1].splitlines()[0])
    assert command[:3] == [PROGRAM, "watch", f"{SPECS}/demo.yaml"]
    app = typer.Typer(add_completion=False)
    app.command()(watch)
    known = {flag for parameter in typer.main.get_command(app).params for flag in parameter.opts}
    assert {each for each in command if each.startswith("--")} <= known
    assert "\nNoNewPrivileges=yes\n" in unit and "\nProtectSystem=strict\n" in unit


def test_the_spec_of_the_service_is_the_same_grid_from_anywhere() -> None:
    spec = spec_of(WATCH, setup={"after": ["./roles/sas"]}, state="./queue")
    (text,) = [text for name, text in watch_files(spec).items() if name.endswith(".yaml")]
    again = parse_spec(text, base=Path("/etc/gridwright/watch"))
    assert again.monitoring == spec.monitoring
    assert again.state == Path("/base/queue")
    assert again.filesystems == spec.filesystems and again.nodes == spec.nodes


def test_a_grid_without_a_watch_has_no_unit_and_servers_have_none() -> None:
    assert watch_unit(spec_of(None)) is None
    assert watch_variables(spec_of(None)) == {}
    unit = "roles/watch/files/gridwright-watch-demo.service"
    hosts = Hosts.named(compute=["node1"], head=["login1", "head1"], storage=["s"])
    assert unit not in playbook_files(spec_of(None), hosts)
    assert unit in playbook_files(spec_of({}), hosts)
    servers = playbook_files(spec_of(WATCH), hosts, groups=("storage",))
    assert unit not in servers and "gridwright_watch:" not in str(servers["group_vars/all.yml"])


def test_a_machine_that_looks_at_itself_sees_its_own_mounts() -> None:
    unit = watch_unit(
        parse_spec(
            json.dumps({"monitoring": {"watch": {}}, "filesystems": {"d": {"type": "local", "path": "/d"}}})
        )
    )
    assert unit is not None
    assert not [line for line in unit.splitlines() if line.startswith(("Protect", "Private"))]
    assert "\nCapabilityBoundingSet=\n" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_reads_it(tmp_path: Path) -> None:
    unit = watch_unit(spec_of(WATCH))
    assert unit is not None
    path = tmp_path / "gridwright-watch-demo.service"
    path.write_text(
        unit.replace(PROGRAM, shutil.which("true") or "/bin/true").replace(
            "User=gridwright-watch\n", "User=daemon\n"
        )
    )
    judged = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in judged.stderr.splitlines() if "gridwright-" in line] == []
