"""`gridwright workload --sweep`: real steps of commands, which need no data."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gridwright.machine import physical_cores
from gridwright.runs.stream_sweep import OF_ALONE
from tests.support.command import Command, wait_until
from tests.support.workload import Grid, sh

EXAMPLE = Path(__file__).parents[2] / "examples" / "aws-fsx.yaml"
"""Four nodes of four cores."""
COMPUTE = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
WAIT = "sleep 0.2"


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


@pytest.mark.timeout(240)
@pytest.mark.alone
def test_more_jobs_than_cores_are_not_carried(grid: Grid) -> None:
    # What else computes on a machine of tests slows one job as it slows many: how many are carried is open.
    flags = ["--sweep", "--scale", "tiny", "--allow-disturbed", "--up-to", str(32 * physical_cores())]
    ended = grid.run([sh(COMPUTE, name="compute")], flags=flags)
    document = ended.json
    assert ended.status == 0, ended.err
    assert 1 <= document["carries"] < document["falls_at"]
    assert document["binds"] == "cores"
    assert (document["ended_by"], document["at_least"], document["required_by"]) == ("knee", False, "default")
    curve = {point["streams"]: point for point in document["curve"]}
    assert curve[document["carries"]]["held"] is True
    assert curve[document["falls_at"]]["held"] is False
    run = Path(document["run"])
    assert run == grid.command.only_run()
    for step in document["steps"]:
        assert {each.name for each in (run / step["run"]).iterdir()} > {"workload.json", "report.html"}
    shown = grid.command("runs", "show", "last", "--json").json
    assert shown["sweep"] == document
    assert document["answer"].split("; ")[0] in (run / "report.html").read_text()
    assert grid.left() == []
    predicted = grid.command("predict", EXAMPLE, "--workload", "quick", "--sweep", "--json")
    assert predicted.status == 0, predicted.err
    assert predicted.json.keys() == document.keys()
    assert (predicted.json["command"], predicted.json["ended_by"]) == ("predict", "knee")
    cores = 4 * 4
    assert cores <= predicted.json["carries"] <= cores / OF_ALONE + 1, "this grid has disks to spare"
    assert predicted.json["binds"] == "cores"


def test_a_knee_that_is_out_of_reach_is_said(grid: Grid) -> None:
    grid.spec.write_text(grid.spec.read_text() + "workload: {requires: {ratio: 0.0001}}\n")
    flags = ["--sweep", "--scale", "tiny", "--allow-disturbed", "--up-to", "2"]
    ended = grid.run([sh(WAIT, name="wait")], flags=flags)
    assert ended.status == 0, ended.err
    document = ended.json
    assert (document["carries"], document["at_least"], document["ended_by"]) == (2, True, "most")
    assert document["binds"] is None
    assert "the CPU/real ratio falls below 0.0001, as the grid spec requires" in ended.err, "said up front"


def test_a_sweep_that_is_interrupted_keeps_its_steps(grid: Grid) -> None:
    started = grid.start([sh(WAIT, name="wait")], flags=["--sweep", "--scale", "tiny", "--allow-disturbed"])

    def second() -> Path | None:
        found = sorted(grid.command.runs.glob("*/steps/*"))
        return found[1] if len(found) > 1 else None

    wait_until(second, seconds=60, what="a second step", last=lambda: [*grid.command.runs.rglob("run.json")])
    started.signal(signal.SIGINT)
    ended = started.end(30)
    assert ended.status == 130, ended.err
    document = ended.json
    assert (document["status"], document["ended_by"]) == ("interrupted", "interrupted")
    assert document["steps"][0]["status"] == "complete"
    (entry,) = grid.command("runs", "list", "--json").json["runs"]
    assert (entry["status"], entry["verdict"]) == ("interrupted", "interrupted")
    assert (Path(document["run"]) / "report.html").exists()
    assert grid.left() == []


def test_what_does_not_go_with_a_sweep_is_told_at_once(grid: Grid) -> None:
    flags = [
        "--sweep",
        "--streams",
        "2",
        "--keep",
        "--profile",
        "p.json",
        "--up-to",
        "0",
        "--within",
        "never",
    ]
    ended = grid.run([["true"]], flags=flags)
    assert ended.status == 2
    assert len(ended.json["problems"]) == 5, ended.err
    alone = grid.run([["true"]], flags=["--up-to", "4"])
    assert alone.status == 2
    assert "add --sweep" in alone.text
    assert not grid.command.runs.exists()
