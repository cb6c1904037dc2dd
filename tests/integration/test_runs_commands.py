"""prove, runs list, show, compare, and report, on runs that are whole, wrong or missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.records import finished_run


@pytest.fixture
def two(gridwright: Command) -> list[Path]:
    """Two finished runs, the second faster by half."""
    return [
        finished_run(gridwright.runs, "alpha", per_core=100e6, spread=0.01),
        finished_run(gridwright.runs, "beta", per_core=150e6, spread=0.01),
    ]


def test_a_proof_leaves_the_files_of_the_design(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "disk" / "data").mkdir(parents=True)
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        f"name: tiny\nfilesystems:\n  disk: {{type: local, path: {tmp_path}/disk}}\n"
        "libraries:\n  data: {filesystem: disk, requires: 1 kB/s/core}\n"
    )
    flags = ("--skip", "workload", "--seconds", "0.2", "--phases", "write,read", "--json")
    ended = gridwright("prove", spec, *flags)
    assert ended.status == 0, ended.err
    document = ended.json
    assert (document["schema"], document["command"], document["status"]) == (1, "prove", "complete")
    assert document["met"] is True
    assert document["workload"] is None
    run = Path(document["run"])
    names = {path.name for path in run.iterdir()}
    assert names == {"run.json", "iotest.json", "samples.parquet", "logs", "report.html"}
    assert document["report"] == str(run / "report.html")
    shown = gridwright("runs", "show", "--json").json
    assert shown["run"]["spec_text"] == spec.read_text()
    assert shown["run"]["command"][:3] == ["gridwright", "prove", str(spec)]
    host = shown["run"]["host"]
    assert host["kernel"].startswith("Linux ")
    assert host["physical_cores"] > 0
    assert host["memory_bytes"] > 1 << 20
    device = shown["iotest"]["libraries"][0]["device"]
    assert {"mount_point", "filesystem_type", "options", "device", "scheduler", "read_ahead_bytes"} <= (
        device.keys()
    )
    table = gridwright("prove", spec, "--skip", "workload", "--seconds", "0.1", "--phases", "write")
    assert table.status == 1, "the read was not measured"
    assert "verdict:" in table.out
    # The last two lines are for those who look no further.
    run_line, report_line = table.out.splitlines()[-2:]
    assert report_line == f"report: {run_line.removeprefix('run: ')}/report.html"


def test_runs_are_listed_oldest_first(gridwright: Command, two: list[Path]) -> None:
    ended = gridwright("runs", "list", "--json")
    assert ended.status == 0
    assert [entry["run"] for entry in ended.json["runs"]] == [str(run) for run in two]
    assert {entry["status"] for entry in ended.json["runs"]} == {"complete"}
    table = gridwright("runs", "list")
    assert table.out.index(two[0].name) < table.out.index(two[1].name)


def test_no_runs_are_no_error(gridwright: Command) -> None:
    ended = gridwright("runs", "list")
    assert (ended.status, ended.out) == (0, "")
    assert f"no runs in {gridwright.runs}" in ended.err
    assert gridwright("runs", "list", "--json").json["runs"] == []


def test_a_run_is_shown_by_any_of_its_names(gridwright: Command, two: list[Path]) -> None:
    for name in (two[0], two[0].name, "alpha"):
        ended = gridwright("runs", "show", name, "--json")
        assert ended.status == 0, ended.err
        assert ended.json["path"] == str(two[0])
    shown = gridwright("runs", "show")
    assert f"run: {two[1]}" in shown.out
    assert "verdict:" in shown.out


def test_two_runs_are_compared_figure_by_figure(gridwright: Command, two: list[Path]) -> None:
    ended = gridwright("runs", "compare", "alpha", "beta", "--json")
    assert ended.status == 0, ended.err
    document = ended.json
    assert (document["a"], document["b"]) == (str(two[0]), str(two[1]))
    rate = next(f for f in document["figures"] if (f["op"], f["figure"]) == ("write", "per_core_bytes_per_s"))
    assert (rate["a"], rate["b"], rate["differs"]) == (100e6, 150e6, True)
    assert rate["ratio"] == pytest.approx(1.5)
    assert 0 < rate["noise"] < 0.2
    table = gridwright("runs", "compare", "alpha", "beta")
    assert "1.500" in table.out
    assert "differs" in table.out
    assert "CPU s per GB" in table.out


def test_a_run_compared_with_itself_does_not_differ(gridwright: Command, two: list[Path]) -> None:
    ended = gridwright("runs", "compare", "alpha", "alpha", "--json")
    assert {f["differs"] for f in ended.json["figures"]} <= {False, None}
    assert {f["ratio"] for f in ended.json["figures"]} == {1.0}


def test_a_report_is_built_again(gridwright: Command, two: list[Path], tmp_path: Path) -> None:
    ended = gridwright("report", "alpha", "--out", tmp_path / "page.html", "--json")
    assert ended.status == 0, ended.err
    assert ended.json == {"schema": 1, "command": "report", "report": str(tmp_path / "page.html")}
    assert (tmp_path / "page.html").read_text().lstrip().startswith("<!DOCTYPE html>")
    assert not (two[0] / "report.html").exists()
    assert gridwright("report", "alpha").out == f"report: {two[0]}/report.html\n"


def test_a_report_that_cannot_be_written_says_where(
    gridwright: Command, two: list[Path], tmp_path: Path
) -> None:
    ended = gridwright("report", "--out", tmp_path / "nowhere" / "page.html")
    assert ended.status == 2
    assert f"there is no directory {tmp_path}/nowhere" in ended.text


@pytest.mark.parametrize("verb", [["runs", "show"], ["report"], ["runs", "compare", "alpha"]])
def test_an_unknown_run_gets_the_nearest_name(gridwright: Command, two: list[Path], verb: list[str]) -> None:
    wrong = two[1].name.replace("beta", "bata")
    ended = gridwright(*verb, wrong)
    assert ended.status == 2
    assert f"there is no run '{wrong}'" in ended.text
    assert two[1].name in ended.text


def test_a_name_that_fits_two_runs_gets_both(gridwright: Command, two: list[Path]) -> None:
    part = two[0].name[:4]
    ended = gridwright("runs", "show", part, "--json")
    assert ended.status == 2
    assert f"2 runs match '{part}'" in ended.text
    assert ended.json["ok"] is False


@pytest.mark.parametrize("verb", [["runs", "show"], ["report"]])
def test_without_runs_the_way_to_one_is_told(gridwright: Command, verb: list[str]) -> None:
    ended = gridwright(*verb)
    assert ended.status == 2
    assert "gridwright prove" in ended.text
    assert str(gridwright.runs) in ended.text


@pytest.mark.parametrize("file", ["run.json", "iotest.json", "samples.parquet"])
def test_a_damaged_file_is_named(gridwright: Command, two: list[Path], file: str) -> None:
    (two[0] / file).write_text("garbage" * 1000)
    ended = gridwright("report", two[0])
    assert ended.status == 3
    assert f"{two[0]}/{file}" in ended.text
    assert "damaged" in ended.text
    if file == "run.json":
        listed = gridwright("runs", "list", "--json")
        assert listed.status == 0
        assert [entry["run"] for entry in listed.json["runs"]] == [str(two[1])]


def test_a_directory_without_run_json_is_no_run(gridwright: Command, two: list[Path]) -> None:
    (two[0] / "run.json").unlink()
    ended = gridwright("runs", "show", two[0])
    assert ended.status == 2
    assert two[1].name in ended.text


def test_a_run_can_be_moved_and_still_be_shown(gridwright: Command, two: list[Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "elsewhere")
    ended = gridwright("runs", "show", tmp_path / "elsewhere", "--json")
    assert ended.status == 0, ended.err
    assert ended.json["path"] == str(tmp_path / "elsewhere")


def test_the_reader_of_the_output_may_go_away(gridwright: Command, two: list[Path]) -> None:
    ended = gridwright("runs", "show", prefix=("sh", "-c", '"$@" | head -c 1', "sh"))
    assert "Traceback" not in ended.err
    assert ended.out == "r"
