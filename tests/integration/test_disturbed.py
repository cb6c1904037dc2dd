"""What runs beside a test is named, and the test is not judged: with real burners, and a second run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, wait_until
from tests.support.workload import Grid

STRICT = {"GRIDWRIGHT_ALLOW_DISTURBED": "0"}
"""As users have it; other tests allow each other's load."""
BURNER = "while True: pass\n"


@pytest.fixture
def burners(tmp_path: Path) -> Iterator[str]:
    """Processes that compute on a quarter of the CPUs; yields what they are called."""
    program = tmp_path / "nightly_backup.py"
    program.write_text(BURNER)
    running = [subprocess.Popen([sys.executable, program]) for _ in range(-(-(os.cpu_count() or 1) // 4))]
    yield program.name
    for each in running:
        each.kill()
        each.wait(10)


def iotest(gridwright: Command, library: Path, *flags: str) -> tuple[int, Any]:
    command = (
        "iotest",
        "--directory",
        library,
        "--requires",
        "1kB/s/core",
        "--streams",
        "2",
        "--seconds",
        "1",
    )
    ended = gridwright(*command, *flags, "--json", environment=STRICT)
    return ended.status, ended.json


def test_foreign_load_is_named_and_proves_nothing_unless_it_is_allowed(
    gridwright: Command, library: Path, burners: str
) -> None:
    status, document = iotest(gridwright, library)
    assert status == 1
    assert document["met"] is None
    (tested,) = document["libraries"]
    assert tested["met"] is None
    for phase in tested["phases"]:
        assert phase["disturbed"] is True
        (cpu,) = [each for each in phase["disturbances"] if each["kind"] == "cpu"]
        assert any(burners in each["name"] for each in phase["load"]["processes"])
        assert cpu["text"].startswith(f"process {cpu['name']} of {cpu['user']} used ")
        assert cpu["share"] > cpu["limit"] == 0.1
        load = phase["load"]
        # What the streams used is ours, and nobody's else.
        assert load["own_s"] >= 0.9 * (phase["cpu_user_s"] + phase["cpu_system_s"]) - 0.1
    (said,) = [each for each in document["findings"] if each["name"] == "disturbed"]
    assert "2 of 2 phases were disturbed, write and read of directory: process " in said["text"]
    shown = gridwright("runs", "show", "last", environment=STRICT).out
    assert "write (disturbed)" in shown
    assert "not proven" in shown.split("verdict:")[1].lower()
    assert "was disturbed (process " in " ".join(shown.split("verdict:")[1].split())
    status, document = iotest(gridwright, library, "--allow-disturbed", "--phases", "write,read")
    assert (status, document["met"]) == (0, True)
    phase, _ = document["libraries"][0]["phases"]
    assert phase["disturbed"] and phase["asked"]["allow_disturbed"]
    verdict = " ".join(gridwright("runs", "show", "last").out.split("verdict:")[1].split())
    assert "requirements met" in verdict.lower()
    assert "Judged although disturbed: process " in verdict


def test_a_second_run_on_the_file_system_is_found_by_its_marker(gridwright: Command, tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
    long = ("iotest", "--directory", tmp_path / "theirs", "--seconds", "60", "--phases", "metadata")
    with gridwright.start(*long, environment=STRICT) as other:
        wait_until(
            lambda: next((tmp_path / "theirs").glob(".gridwright-*/gridwright-run.json"), None),
            seconds=30,
            what="the marker of the other run",
            last=lambda: list((tmp_path / "theirs").iterdir()),
        )
        (theirs,) = [each.name for each in gridwright.runs.iterdir()]
        status, document = iotest(gridwright, tmp_path / "mine", "--size", "1MiB")
        other.signal(signal.SIGTERM)
        other.end(60)
    (tested,) = document["libraries"]
    found = [each for phase in tested["phases"] for each in phase["disturbances"] if each["kind"] == "run"]
    assert status == 1
    assert {each["name"] for each in found} == {theirs}
    assert "iotest" in found[0]["text"]
    assert not list(tmp_path.rglob("gridwright-run.json")), "markers go with their runs"


def test_launches_of_a_workload_know_what_disturbed_them(
    gridwright: Command, tmp_path: Path, burners: str
) -> None:
    grid = Grid(tmp_path, gridwright)
    grid.spec.write_text(f"{grid.spec.read_text()}workload:\n  requires: {{ratio: 0.001}}\n")
    arguments = grid.arguments([[sys.executable, "-c", "print(sum(range(10**7)))"]])
    ended = gridwright(*arguments, environment=STRICT)
    assert (ended.status, ended.json["met"]) == (1, None)
    (launch,) = ended.json["launches"]
    assert launch["ok"] and launch["disturbed"]
    assert any(burners in each["name"] for each in launch["load"]["processes"])
    assert "1 of 1 launch was disturbed: process " in json.dumps(ended.json["findings"])
    allowed = gridwright(*arguments, "--allow-disturbed", environment=STRICT)
    assert (allowed.status, allowed.json["met"]) == (0, True)
    assert allowed.json["allow_disturbed"] is True
