"""init, check and schema as a user meets them: files, output, exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gridwright.cli.plan.check import check, init, schema
from gridwright.errors import ExitStatus, GridwrightError

app = typer.Typer()
for _command in (init, check, schema):
    app.command()(_command)


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_init_then_check() -> None:
    done = run("init")
    assert done.exit_code == 0
    assert done.stdout == "grid.yaml written. Edit it, then run: gridwright check\n"
    checked = run("check")
    assert checked.exit_code == 0
    assert checked.stdout.startswith("grid.yaml: valid. Grid demo, provider local, 1 node\n")
    assert "warning shared-disks: " in checked.stdout
    assert os.listdir() == ["grid.yaml"]  # noqa: PTH208 - temporary files would be hidden from a glob


def test_init_keeps_an_existing_file() -> None:
    Path("grid.yaml").write_text("mine")
    done = run("init")
    assert isinstance(done.exception, GridwrightError)
    assert done.exception.status is ExitStatus.INPUT
    assert str(done.exception) == (
        "grid.yaml: the file exists: no grid spec\n  Write grid-2.yaml, or replace it with --force"
    )
    assert Path("grid.yaml").read_text() == "mine"
    assert run("init", "grid-2.yaml").exit_code == 0
    again = run("init", "grid-2.yaml")
    assert "the file exists: the spec of grid demo, provider local\n  Write grid-3.yaml" in str(
        again.exception
    )
    Path("grid-2.yaml").unlink()
    assert run("init", "--force").exit_code == 0
    assert Path("grid.yaml").read_text() != "mine"
    assert os.listdir() == ["grid.yaml"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--provider", "lap"], '"lap" is no provider'),
        (["--provider", "locla"], '"locla" is no provider'),
        (["no/grid.yaml"], "no: no such directory\n  Run mkdir -p no"),
        (["."], "a directory, and a file is needed"),
    ],
)
def test_init_refusals_leave_nothing(arguments: list[str], message: str) -> None:
    done = run("init", *arguments)
    assert isinstance(done.exception, GridwrightError)
    assert message in str(done.exception)
    assert os.listdir() == []  # noqa: PTH208


def test_init_honours_the_umask() -> None:
    before = os.umask(0o027)
    try:
        run("init")
    finally:
        os.umask(before)
    assert Path("grid.yaml").stat().st_mode & 0o777 == 0o640


def test_init_reports_a_disk_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    done = run("init")
    assert isinstance(done.exception, GridwrightError)
    assert done.exception.status is ExitStatus.ENVIRONMENT
    assert "No space left on device" in str(done.exception)
    assert os.listdir() == []  # noqa: PTH208


def test_check_json_of_a_valid_spec() -> None:
    run("init")
    document = json.loads(run("check", "--json").stdout)
    assert {key: document[key] for key in ("schema", "command", "file", "ok")} == {
        "schema": 1,
        "command": "check",
        "file": "grid.yaml",
        "ok": True,
    }
    assert set(document["findings"][0]) == {"level", "name", "text", "remedy"}


def test_check_json_of_a_wrong_spec() -> None:
    Path("grid.yaml").write_text("nmae: demo\nfilesystems:\n  d: {type: local}\n")
    done = run("check", "--json")
    assert done.exit_code == 2
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["ok"] is False
    assert [each["field"] for each in document["problems"]] == ["nmae", "filesystems.d.path"]
    assert set(document["problems"][0]) == {"what", "where", "field", "source", "remedy"}


def test_check_raises_for_the_command_line_to_print() -> None:
    done = run("check", "none.yaml")
    assert isinstance(done.exception, GridwrightError)
    assert "none.yaml: no such file" in str(done.exception)


def test_check_counts_what_is_silenced() -> None:
    run("init")
    text = Path("grid.yaml").read_text().replace("./grid-disk", "/srv/grid")
    Path("grid.yaml").write_text(text + "silence:\n  shared-disks: one set of disks\n")
    done = run("check")
    assert "1 finding silenced by the spec" in done.stdout
    assert "warning" not in done.stdout


def test_schema_prints_one_document() -> None:
    assert json.loads(run("schema").stdout)["title"] == "Gridwright grid spec"


def test_importing_the_commands_is_cheap() -> None:
    code = (
        "import sys, gridwright.cli.plan.check, gridwright.cli.plan.check, gridwright.cli.plan.check; "
        "heavy = ('pydantic', 'ruamel.yaml', 'gridwright.spec'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
