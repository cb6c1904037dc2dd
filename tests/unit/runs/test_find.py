"""Finding the run that a user means."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.runs.find import find_run

NAMES = ("20260101T000000Z-demo", "20260102T000000Z-demo", "20260103T000000Z-lustre")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    for name in NAMES:
        (directory / name).mkdir(parents=True)
        (directory / name / "run.json").write_text("{}")
    (directory / "20270101T000000Z-no-run").mkdir()
    return directory


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("last", NAMES[2]),
        (NAMES[0], NAMES[0]),
        ("lustre", NAMES[2]),
        ("20260102", NAMES[1]),
    ],
)
def test_a_name_a_part_of_it_or_last(runs: Path, typed: str, meant: str) -> None:
    assert find_run(runs, typed) == runs / meant


def test_a_directory_anywhere(runs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (runs / NAMES[0]).rename(elsewhere)
    assert find_run(runs, str(elsewhere)) == elsewhere
    assert find_run(tmp_path / "nothing", str(elsewhere)) == elsewhere


@pytest.mark.parametrize("runs_directory", ["nothing", "empty"])
@pytest.mark.parametrize("typed", ["last", "demo"])
def test_where_there_are_no_runs_the_way_to_one_is_named(
    tmp_path: Path, runs_directory: str, typed: str
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(GridwrightError, match="no runs here") as raised:
        find_run(tmp_path / runs_directory, typed)
    assert raised.value.status == ExitStatus.INPUT
    assert raised.value.problems[0].where == str(tmp_path / runs_directory)
    assert "gridwright prove" in str(raised.value.problems[0].remedy)


def test_a_part_of_two_names_is_answered_with_both(runs: Path) -> None:
    with pytest.raises(GridwrightError, match="2 runs match 'demo'") as raised:
        find_run(runs, "demo")
    assert NAMES[0] in str(raised.value.problems[0].remedy)
    assert NAMES[1] in str(raised.value.problems[0].remedy)


@pytest.mark.parametrize(
    ("typed", "near"), [("20260103T000000Z-luster", NAMES[2]), ("20260101-demo", NAMES[0])]
)
def test_a_name_that_is_none_is_answered_with_the_nearest(runs: Path, typed: str, near: str) -> None:
    with pytest.raises(GridwrightError, match="there is no run") as raised:
        find_run(runs, typed)
    assert near in str(raised.value.problems[0].remedy)


@pytest.mark.parametrize("typed", ["x" * 5000, "a/" * 3000, ""], ids=["long", "deep", "empty"])
def test_no_name_is_too_strange_for_an_answer(runs: Path, typed: str) -> None:
    with pytest.raises(GridwrightError):
        find_run(runs, typed)
