"""The wheel, installed where no compiler is: it needs no more than it asks for, and proves a directory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gridwright import __version__
from tests.support.clean_environment import ROOT, build_wheel, lean_path, make_environment

SPEC = """name: first
filesystems: {{disk: {{type: local, path: {path}}}}}
libraries:
  data: {{filesystem: disk, requires: 1 kB/s/core}}
  work: {{filesystem: disk, requires: 1 kB/s/core}}
  util: {{filesystem: disk, requires: 1 kB/s/core}}
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has the wheel which GRIDWRIGHT_WHEEL names, or one of its own."""
    given = os.environ.get("GRIDWRIGHT_WHEEL")
    place = tmp_path_factory.mktemp("installed")
    wheel = Path(given) if given else build_wheel(place / "wheel")
    assert "-cp311-abi3-" in wheel.name, "a wheel for one release of Python alone"
    return make_environment(place / "venv", wheel)


def run(
    commands: Path, directory: Path, *arguments: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [commands / "gridwright", *arguments],
        cwd=directory,
        env={"PATH": lean_path(commands), "HOME": str(directory), "GRIDWRIGHT_ALLOW_DISTURBED": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    return done


def test_an_installed_wheel_proves_a_directory(commands: Path, tmp_path: Path) -> None:
    assert run(commands, tmp_path, "--version").stdout == f"gridwright {__version__}\n"
    for library in ("data", "work", "util"):
        (tmp_path / library).mkdir()
    (tmp_path / "grid.yaml").write_text(SPEC.format(path=tmp_path))
    flags = ("--skip", "doctor", "--skip", "workload", "--seconds", "0.2s", "--json")
    document = json.loads(run(commands, tmp_path, "prove", *flags).stdout)
    assert (document["status"], document["met"]) == ("complete", True)
    assert (Path(document["run"]) / "report.html").stat().st_size > 100_000
    assert run(commands, tmp_path, "runs", "list").stdout.count("first") >= 1


def test_an_installed_wheel_carries_the_documents_that_messages_name(commands: Path, tmp_path: Path) -> None:
    pages = json.loads(run(commands, tmp_path, "help", "--json").stdout)["text"]
    assert {"first-grid", "bad-result", "iotest"} <= {
        line.split()[0] for line in pages.splitlines() if line[:2] == "  "
    }
    assert run(commands, tmp_path, "help", "grid-spec").stdout.startswith("# ")
    stalled = run(commands, tmp_path, "help", "stalled").stdout
    assert "Cause:" in stalled
    assert "Remedy:" in stalled
    assert "did you mean stalled?" in run(commands, tmp_path, "help", "staled", status=2).stderr


def test_an_installed_wheel_without_extras_says_which_one_it_lacks(commands: Path, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(SPEC.format(path=tmp_path) + "scheduller: slurm\n")
    said = run(commands, tmp_path, "check", status=2).stderr
    assert "scheduller" in said
    on_aws = (ROOT / "examples/aws-fsx.yaml").read_text()
    (tmp_path / "grid.yaml").write_text(on_aws)
    run(commands, tmp_path, "check", "--json")
    said = run(commands, tmp_path, "render", "--out", "rendered", status=3).stderr
    assert "troposphere is not installed" in said
    assert "pip install 'gridwright[aws]'" in said
