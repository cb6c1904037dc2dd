"""Profiles of a run: written with it or afterwards, replayed, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridwright.cli.prove.workload import profile_
from gridwright.errors import GridwrightError
from gridwright.runs.profiles import load_profiles
from tests.support.command import Command
from tests.support.moved import moved_bytes
from tests.support.workload import Grid, sh

MB = 1_000_000


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


def test_a_test_that_spills_is_profiled_in_the_order_of_its_work(grid: Grid, tmp_path: Path) -> None:
    out = tmp_path / "profiles.json"
    flags = ["--scale", "tiny", "--streams", "1", "--profile", str(out)]
    # Below the default memory, so that a sort of 12 MB has to spill.
    ended = grid.run([{"test": "sort", "memory": "256MiB"}, {"test": "reg"}], flags=flags)
    assert ended.status == 0, ended.err
    assert f"profiles: {out} (2 tests, scale tiny)" in ended.err
    found = load_profiles(out)
    (launch,) = [each for each in ended.json["launches"] if each["test"] == "sort"]
    sort = found.profiles["sort"]
    assert (found.scale, found.streams, found.matrix) == ("tiny", 1, "own")
    assert (sort.launches, sort.cores) == (1, 1)
    for library, moved in launch["libraries"].items():
        assert moved_bytes(sort, library, "read") == pytest.approx(moved["read_bytes"], abs=20)
        assert moved_bytes(sort, library, "write") == pytest.approx(moved["written_bytes"], abs=20)
    assert sort.cpu_s == pytest.approx(launch["user_s"] + launch["system_s"], abs=0.01)
    assert sum(each.seconds for each in sort.phases) == pytest.approx(launch["real_s"], abs=0.05)
    reading = [number for number, each in enumerate(sort.phases) if each.read_bytes.get("data")]
    writing = [n for n, each in enumerate(sort.phases) if each.written_bytes.get("work", 0) > MB]
    assert min(reading) <= min(writing), "it reads its table before it writes the sorted one"
    assert found.data_bytes["small"] > found.data_bytes["tiny"] > 10 * MB


def test_a_command_is_profiled_by_what_it_computes_and_when(grid: Grid, tmp_path: Path) -> None:
    out = tmp_path / "profiles.json"
    script = (
        "head -c 30000000 /dev/zero > first; sleep 0.3; i=0; "
        "while [ $i -lt 300000 ]; do i=$((i+1)); done; cksum first > /dev/null"
    )
    ended = grid.run([sh(script, name="own")], flags=["--profile", str(out)])
    assert ended.status == 0, ended.err
    own = load_profiles(out).profiles["own"]
    assert own.class_ == "command"
    assert moved_bytes(own, "work", "write") == pytest.approx(30 * MB, rel=0.05)
    # The zeros, and the file when it is read back.
    assert moved_bytes(own, "data", "read") == pytest.approx(60 * MB, rel=0.1)
    assert own.cpu_s > 0.1
    busiest = max(range(len(own.phases)), key=lambda number: own.phases[number].cpu_s)
    written = [number for number, each in enumerate(own.phases) if each.written_bytes.get("work", 0) > MB]
    assert max(written) <= busiest


@pytest.mark.parametrize(
    ("place", "says"),
    [("none/profiles.json", "there is no directory"), (".", "is a directory")],
)
def test_a_wrong_place_is_refused_before_the_run(grid: Grid, tmp_path: Path, place: str, says: str) -> None:
    ended = grid.run([["true"]], flags=["--profile", str(tmp_path / place)])
    assert ended.status == 2
    assert says in ended.text
    assert not [*grid.library("work").iterdir()]


def test_an_interrupted_or_failed_run_leaves_no_half_profiles(grid: Grid, tmp_path: Path) -> None:
    out = tmp_path / "profiles.json"
    ended = grid.run([["false"]], flags=["--profile", str(out)])
    assert ended.status == 1
    assert ended.json["met"] is False, "one document on stdout, as without profiles"
    assert "no launch ran to its end" in ended.text
    assert not out.exists()


def test_a_run_that_ended_is_profiled_as_it_would_have_been(
    grid: Grid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once, later = tmp_path / "at-once.json", tmp_path / "later.json"
    assert grid.run([["true"]], flags=["--profile", str(at_once)]).status == 0
    runs = tmp_path / "runs"
    profile_("last", later, runs, json=True)
    assert load_profiles(later) == load_profiles(at_once)
    document = json.loads(capsys.readouterr().out)
    assert (document["command"], document["tests"]) == ("workload profile", ["true"])
    with pytest.raises(GridwrightError, match="no run 'other'"):
        profile_("other", later, runs)
