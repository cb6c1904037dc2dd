"""`gridwright workload` as a user types it: the tests, their data, logs of a site's own, wrong flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.workload.data_set import HOME
from gridwright.workload.programs.program import TEST_NAMES
from tests.support.command import Command
from tests.support.workload import Grid, sh


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


def test_each_of_the_nineteen_tests_is_right(grid: Grid) -> None:
    ended = grid.command("workload", grid.spec, "--matrix", "quick", "--scale", "tiny", "--json", seconds=200)
    document = ended.json
    failed = [(launch["test"], launch["reason"]) for launch in document["launches"] if not launch["ok"]]
    assert failed == []
    assert ended.status == 0, ended.err
    assert sorted(launch["test"] for launch in document["launches"]) == sorted(TEST_NAMES)
    assert document["met"] is None, "nothing is required of it"
    assert (document["matrix"], document["scale"], document["seed"]) == ("quick", "tiny", 1)
    assert document["data"]["made"] == document["data"]["tables"]
    for launch in document["launches"]:
        assert sum(launch["shares"].values()) == pytest.approx(1.0, abs=0.01)
        assert launch["libraries"]["data"]["read_bytes"] > 0, launch["test"]
        assert launch["peak_memory_bytes"] <= launch["memory_limit_bytes"]
    assert sum(document["summary"]["shares"].values()) == pytest.approx(1.0, abs=0.01)
    assert document["summary"]["diagnosis"]
    assert grid.left() == []


def test_data_is_made_once_and_removed_on_request(grid: Grid) -> None:
    arguments = grid.arguments([{"test": "optimize"}], [{"test": "lookup"}], flags=["--scale", "tiny"])
    other = grid.library("data") / "sales.sas7bdat"
    other.write_text("mine")
    first = grid.command(*arguments).json["data"]
    made = {path: path.stat().st_mtime_ns for path in Path(first["directory"]).rglob("*.*")}
    assert first["made"] == first["tables"] == 3
    second = grid.command(*arguments).json["data"]
    assert second["made"] == 0
    assert second["bytes"] == first["bytes"]
    assert {path: path.stat().st_mtime_ns for path in Path(first["directory"]).rglob("*.*")} == made
    cleaned = grid.command("workload", "clean", grid.spec, "--json")
    assert cleaned.status == 0, cleaned.err
    assert cleaned.json["removed"] == [first["directory"]]
    assert [*grid.library("data").iterdir()] == [other]
    again = grid.command("workload", "clean", grid.spec)
    assert (again.status, again.out) == (0, "nothing to remove\n")


def test_tests_read_and_write_in_the_blocks_that_the_user_asks_for(grid: Grid) -> None:
    for flags, block in ((["--block", "1MiB"], 1 << 20), ([], 64 << 10)):
        ended = grid.run([{"test": "append"}], flags=["--scale", "tiny", *flags])
        assert ended.status == 0, ended.err
        assert ended.json["block_bytes"] == block
        (launch,) = ended.json["launches"]
        for library in ("data", "work"):
            moved = launch["libraries"][library]
            # Files are a few blocks long, and the last of each is shorter.
            assert block / 4 < moved["read_bytes"] / moved["read_calls"] <= block
    refused = grid.run([{"test": "append"}], flags=["--block", "5000"])
    assert refused.status == 2
    assert "--block" in refused.err


def test_a_damaged_table_fails_the_launches_that_read_it(grid: Grid) -> None:
    arguments = grid.arguments([{"test": "lookup"}, ["true"]], flags=["--scale", "tiny"])
    directory = Path(grid.command(*arguments).json["data"]["directory"])
    (table,) = directory.glob("copy-0/transactions.*")
    content = bytearray(table.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0x01 for byte in content[middle : middle + 64])
    table.write_bytes(content)
    ended = grid.command(*arguments)
    assert ended.status == 1, ended.err
    damaged, other = ended.json["launches"]
    assert damaged["reason"].startswith("wrong answer: transactions"), damaged["reason"]
    assert other["ok"]


def test_commands_alone_need_no_data(grid: Grid) -> None:
    document = grid.run([["true"]]).json
    assert document["data"] is None
    assert [*grid.library("data").iterdir()] == []
    assert not (grid.library("data") / HOME).exists()


def test_the_same_without_json_is_a_table(grid: Grid) -> None:
    matrix = grid.matrix([sh("exit 4", name="sad"), ["true"]])
    ended = grid.command("workload", "run", grid.spec, "--matrix", matrix)
    assert ended.status == 1
    run = grid.command.only_run()
    assert f"run: {run}\nreport: {run}/report.html\n" in ended.out
    assert "sad" in ended.out
    shown = grid.command("runs", "show", "--json")
    assert shown.status == 0, shown.err
    (entry,) = grid.command("runs", "list", "--json").json["runs"]
    assert (entry["status"], entry["met"]) == ("complete", False)


def test_all_wrong_flags_are_told_at_once(grid: Grid) -> None:
    flags = (
        "--matrix quik --scale tinny --streams 0 --seed -1 --memory 1k --time-limit never --threads 0 --json"
    )
    ended = grid.command("workload", grid.spec, *flags.split())
    assert ended.status == 2
    assert ended.json["ok"] is False
    assert len(ended.json["problems"]) == 7, ended.err
    for words in ("mixed-30", "tiny", "--streams", "--seed", "--memory", "--time-limit", "--threads"):
        assert words in ended.text
    assert not grid.command.runs.exists()


def test_a_grid_without_the_libraries_is_refused(gridwright: Command, tmp_path: Path) -> None:
    spec = Grid.write_spec(tmp_path, {"data": tmp_path})
    ended = gridwright("workload", spec, "--scale", "tiny")
    assert ended.status == 2
    assert "needs a library work" in ended.text
    assert "needs a library util" in ended.text


def test_libraries_that_are_missing_are_made_and_said(grid: Grid) -> None:
    grid.library("work").rmdir()
    ended = grid.run([["true"]])
    assert ended.status == 0, ended.err
    assert str(grid.library("work")) in ended.err
    assert grid.left() == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["work", "data"])
def test_a_library_that_is_no_directory_is_named(grid: Grid, name: str) -> None:
    grid.library(name).rmdir()
    grid.library(name).write_text("mine")
    ended = grid.run([{"test": "optimize"}], flags=["--scale", "tiny"])
    assert ended.status in (2, 3), ended.err
    assert str(grid.library(name)) in ended.text
    assert grid.library(name).read_text() == "mine"


@pytest.mark.thorough
def test_libraries_may_lie_in_directories_of_any_name(tmp_path: Path, gridwright: Command) -> None:
    place = tmp_path / "a 'quoted\" grün name"
    place.mkdir()
    grid = Grid(place, gridwright)
    ended = grid.run([{"test": "optimize"}, sh("echo x > $GRIDWRIGHT_WORK/y")], flags=["--scale", "tiny"])
    assert ended.status == 0, ended.err
    assert grid.left() == []
