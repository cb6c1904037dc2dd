"""A proof of both parts: iotest, then the workload, in one run, one report and one verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.workload import Grid, sh

IOTEST = ("--seconds", "0.5s", "--phases", "write,read")


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


def test_a_proof_of_both_parts(grid: Grid) -> None:
    matrix = grid.matrix([{"test": "optimize"}], [{"test": "lookup"}])
    flags = ("--scale", "tiny", "--matrix", matrix, *IOTEST, "--json")
    ended = grid.command("prove", grid.spec, *flags)
    assert ended.status == 0, ended.err
    document = ended.json
    assert (document["command"], document["status"], document["met"]) == ("prove", "complete", None)
    assert [each["library"] for each in document["iotest"]["libraries"]] == ["data", "work", "util"]
    assert {launch["test"] for launch in document["workload"]["launches"]} == {"optimize", "lookup"}
    assert document["grade"] == "quick look"
    assert "Not shown: sustained rates, of data, work, util, the workload." in document["not_shown"]
    run = Path(document["run"])
    assert {path.name for path in run.iterdir()} == {
        *("run.json", "iotest.json", "workload.json", "launches.parquet", "samples.parquet"),
        *("logs", "report.html"),
    }
    shown = grid.command("runs", "show", "--json").json
    assert shown["run"]["what"] == ["doctor", "iotest", "workload"]
    assert shown["run"]["met"] is None, "nothing is required"
    assert grid.left() == []


def test_what_is_required_of_the_workload_is_judged(grid: Grid) -> None:
    matrix = grid.matrix([sh("sleep 0.5", name="nap")])
    flags = ("--skip", "iotest", "--skip", "doctor", "--matrix", matrix)
    free = grid.command("prove", grid.spec, *flags)
    assert free.status == 0, free.err
    assert "verdict: Quick look: no requirement on the workload" in free.out
    grid.spec.write_text(grid.spec.read_text() + "workload: {requires: {ratio: 0.9, real_time: 1h}}\n")
    ended = grid.command("prove", grid.spec, *flags, "--json")
    assert (ended.status, ended.json["met"]) == (1, False)
    ratio, time = ended.json["workload"]["requirements"]
    assert (ratio["figure"], ratio["met"]) == ("ratio", False)
    assert (time["figure"], time["required"], time["met"]) == ("real_s", 3600.0, True)


def test_what_is_required_of_a_part_that_is_left_out_is_open(grid: Grid) -> None:
    text = grid.spec.read_text().replace("data: {filesystem", "data: {requires: 1 kB/s/core, filesystem")
    grid.spec.write_text(f"{text}workload: {{requires: {{ratio: 0.1}}}}\n")
    no_workload = grid.command("prove", grid.spec, "--skip", "workload", "--skip", "doctor", *IOTEST)
    assert no_workload.status == 1, no_workload.text
    assert "not measured by this run: a CPU/real ratio of 0.1 of the workload" in " ".join(
        no_workload.out.split()
    )
    matrix = grid.matrix([["true"]])
    flags = ("--skip", "iotest", "--skip", "doctor", "--matrix", matrix)
    no_iotest = grid.command("prove", grid.spec, *flags)
    assert no_iotest.status == 1, no_iotest.text
    assert "not measured by this run: 1 kB/s/core of library data" in " ".join(no_iotest.out.split())
    writes = grid.command("iotest", grid.spec, "--phases", "write", "--seconds", "0.3s")
    assert writes.status == 1, writes.text
    shown = grid.command("runs", "show", "last").out
    assert "The read of data was not measured." in " ".join(shown.split())


def test_a_failed_launch_misses_the_proof(grid: Grid) -> None:
    matrix = grid.matrix([sh("exit 1", name="sad"), ["true"]])
    ended = grid.command("prove", grid.spec, "--skip", "iotest", "--matrix", matrix, "--json")
    assert ended.status == 1, ended.err
    assert ended.json["iotest"] is None
    assert ended.json["met"] is False
    assert [launch["ok"] for launch in ended.json["workload"]["launches"]] == [False, True]


def test_wrong_flags_of_both_parts_are_told_at_once(grid: Grid) -> None:
    flags = ("--seconds", "never", "--scale", "tinny", "--matrix", "quik", "--skip", "iotst", "--json")
    ended = grid.command("prove", grid.spec, *flags)
    assert ended.status == 2
    assert len(ended.json["problems"]) == 4
    both = grid.command("prove", grid.spec, "--skip", "iotest", "--skip", "workload", "--skip", "doctor")
    assert both.status == 2
    assert "nothing is left to be proved" in both.text
