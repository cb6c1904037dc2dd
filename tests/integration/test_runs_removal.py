"""runs rm and runs prune: what goes, what stays, and that nothing goes unasked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridwright.runs.directory import remove_leavings
from tests.support.command import Command
from tests.support.records import finished_run, measured_run


def aged(runs: Path, name: str, days: float) -> Path:
    """A finished run that began some days ago."""
    made = finished_run(runs, name)
    record = json.loads((made / "run.json").read_text())
    began = datetime.now(UTC) - timedelta(days=days)
    record["started"] = began.isoformat(timespec="seconds")
    (made / "run.json").write_text(json.dumps(record))
    return made.rename(runs / f"{began:%Y%m%dT%H%M%SZ}-{name}")


@pytest.fixture
def four(gridwright: Command) -> list[Path]:
    """The oldest first."""
    return [aged(gridwright.runs, name, days) for name, days in zip("abcd", (400, 100, 50, 1), strict=True)]


def left(gridwright: Command) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in gridwright.runs.iterdir())


@pytest.mark.parametrize(
    ("flags", "stay"),
    [
        (("--keep", "3"), "bcd"),
        (("--keep", "0"), ""),
        (("--older", "90d"), "cd"),
        (("--keep", "1", "--older", "90d"), "cd"),
        (("--keep", "3", "--older", "30d"), "bcd"),
        (("--keep", "9"), "abcd"),
    ],
)
def test_prune_removes_what_no_flag_keeps(
    flags: tuple[str, ...], stay: str, gridwright: Command, four: list[Path]
) -> None:
    shown = gridwright("runs", "prune", *flags, "--dry-run", "--json").json
    assert left(gridwright) == list("abcd")
    ended = gridwright("runs", "prune", *flags, "--yes", "--json")
    assert ended.status == 0, ended.err
    assert left(gridwright) == list(stay)
    gone = [str(path) for path in reversed(four) if path.name[-1] not in stay]
    assert (ended.json["removed"], shown["removed"]) == (gone, gone)
    assert [shown["dry_run"], ended.json["dry_run"]] == [True, False]
    assert (ended.json["freed_bytes"] > 0) == bool(gone)


def test_a_removal_is_asked_for(gridwright: Command, four: list[Path]) -> None:
    for command in (("prune", "--keep", "0"), ("rm", "last")):
        ended = gridwright("runs", *command)
        assert (ended.status, ended.out) == (2, "")
        assert "nobody is there to be asked add --yes" in ended.text
        assert four[-1].name in ended.err
    assert left(gridwright) == list("abcd")


def test_prune_without_a_rule_removes_nothing(gridwright: Command, four: list[Path]) -> None:
    assert "neither --keep nor --older" in gridwright("runs", "prune", "--yes").text
    wrong = gridwright("runs", "prune", "--older", "old", "--yes")
    assert (wrong.status, left(gridwright)) == (2, list("abcd"))
    assert "--older" in wrong.err
    bare = gridwright("runs", "prune", "--older", "0", "--yes")
    assert (bare.status, left(gridwright)) == (2, list("abcd")), "no bare number of seconds"
    assert "say 30d, 12h" in bare.err


def test_rm_removes_the_runs_that_are_named(gridwright: Command, four: list[Path]) -> None:
    ended = gridwright("runs", "rm", four[0], four[2].name, four[2].name, "--yes")
    assert ended.status == 0, ended.err
    assert ended.out.startswith("2 runs removed, ")
    assert left(gridwright) == ["b", "d"]
    assert gridwright("runs", "rm", "nothing", "--yes").status == 2


def test_what_no_run_leaves_stays_with_the_whole_run(gridwright: Command, four: list[Path]) -> None:
    (four[0] / "notes.txt").write_text("mine")
    (four[1] / "logs" / "elsewhere").symlink_to("/etc")
    (four[2] / ".iotest.json.123.part").write_text("what a killed process left")
    ended = gridwright("runs", "prune", "--keep", "0", "--yes", "--json")
    assert ended.status == 0, ended.err
    assert left(gridwright) == ["a", "b"]
    assert {Path(each["run"]).name[-1]: each["reason"] for each in ended.json["kept"]} == {
        "a": "it holds what no run leaves: notes.txt",
        "b": "it holds what no run leaves: logs",
    }
    refused = gridwright("runs", "rm", four[0], four[1], "--yes")
    assert refused.status == 2
    assert refused.err.count("it is not removed") == 2
    assert (four[0] / "run.json").exists()


def test_a_run_in_progress_stays(gridwright: Command) -> None:
    going = measured_run(gridwright.runs, "going")  # this process makes it
    ended = gridwright("runs", "prune", "--keep", "0", "--yes")
    assert f"{going.path.name}: kept, it is in progress" in ended.out
    refused = gridwright("runs", "rm", going.path, "--yes")
    assert (refused.status, "it is in progress" in refused.text) == (2, True)
    going.finish("complete")
    assert gridwright("runs", "rm", going.path, "--yes").status == 0
    assert left(gridwright) == []


def test_links_and_damaged_runs_stay(gridwright: Command, tmp_path: Path) -> None:
    elsewhere = finished_run(tmp_path / "elsewhere", "x")
    gridwright.runs.mkdir()
    (gridwright.runs / "20200101T000000Z-x").symlink_to(elsewhere)
    broken = finished_run(gridwright.runs, "y")
    (broken / "run.json").write_text("{")
    ended = gridwright("runs", "prune", "--keep", "0", "--yes", "--json")
    reasons = [each["reason"] for each in ended.json["kept"]]
    assert [reason.partition(":")[0] for reason in reasons] == [
        "it cannot be read",
        "it is a link to another place",
    ]
    assert (elsewhere / "run.json").exists()
    assert left(gridwright) == ["x", "y"]


def test_a_removal_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    half = finished_run(tmp_path, "half")
    (half / "run.json").unlink()
    half.rename(tmp_path / f".{half.name}.removed")
    (tmp_path / ".mine.removed").mkdir()
    (tmp_path / ".mine.removed" / "file").touch()
    remove_leavings(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".mine.removed"]
