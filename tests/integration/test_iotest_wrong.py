"""Wrong flags and directories (exit 2), no room (exit 3): what, where and what to do, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command


def test_all_wrong_flags_are_told_at_once(gridwright: Command, library: Path) -> None:
    ended = gridwright(
        *("iotest", "--directory", library, "--engine", "dirct", "--phases", "write,raed", "--block", "5000"),
        *("--size", "huge", "--requires", "100MB/s", "--streams", "0", "--format", "iotest"),
    )
    assert ended.status == 2
    assert ended.out == ""
    for words in (
        "error: --engine: 'dirct' is not known here",
        "did you mean direct?",
        "error: --phases: 'raed' is not known here",
        "did you mean read?",
        "error: --format: 'iotest' is not known here",
        "did you mean iotest.sh?",
        "error: --block:",
        "error: --size:",
        "error: --requires:",
        "write 100MB/s/core",
        "error: --streams:",
    ):
        assert words in ended.text, ended.err
    assert not gridwright.runs.exists(), "nothing was run, so no run is left"


def test_with_json_the_problems_are_a_document_too(gridwright: Command, library: Path) -> None:
    ended = gridwright("iotest", "--directory", library, "--engine", "dirct", "--block", "1kB", "--json")
    assert ended.status == 2
    document = ended.json
    assert (document["schema"], document["command"], document["ok"]) == (1, "iotest", False)
    assert {problem["where"] for problem in document["problems"]} == {"--engine", "--block"}
    for problem in document["problems"]:
        assert problem.keys() == {"what", "where", "field", "remedy", "source"}
        assert problem["what"] in ended.text


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grid.yaml", "--directory", "."], "both a grid spec and --directory are given"),
        (["grid.yaml", "--requires", "1MB/s/core"], "--requires goes with --directory"),
        (["--directory", ".", "--json", "--format", "iotest.sh"], "--json and --format exclude each other"),
        (["--directory", ".", "--until-steady", "5m", "--size", "1GiB"], "--until-steady goes on until"),
        (["--directory", ".", "--until-steady", "--sweep"], "--sweep:"),
        (["--directory", ".", "--sweep", "--streams", "2"], "leave out --streams or --sweep"),
        (["--directory", ""], "the path is empty"),
        (["--directory", ".", "--queue-depth", "8"], "add --engine direct"),
    ],
)
def test_flags_that_exclude_each_other(
    gridwright: Command, tmp_path: Path, arguments: list[str], words: str
) -> None:
    ended = gridwright("iotest", *arguments, cwd=tmp_path)
    assert ended.status == 2
    assert words in ended.text


def test_a_misspelt_flag_gets_the_nearest_right_one(gridwright: Command) -> None:
    ended = gridwright("iotest", "--directry", "/tmp")
    assert ended.status == 2
    assert "--directory" in ended.text


def test_a_misspelt_verb_gets_the_nearest_right_one(gridwright: Command) -> None:
    ended = gridwright("iotst")
    assert ended.status == 2
    assert "iotest" in ended.text


@pytest.mark.parametrize("verb", ["iotest", "prove"])
def test_without_a_spec_the_missing_file_is_named(gridwright: Command, tmp_path: Path, verb: str) -> None:
    ended = gridwright(verb, cwd=tmp_path)
    assert ended.status == 2
    assert "grid.yaml" in ended.text


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing", "there is no such directory"),
        ("file", "it is not a directory"),
        ("file/below", "it is not a directory"),
        ("dangling", "there is no such directory"),
        ("circle", "its symbolic links lead in a circle"),
        ("/proc", "proc shows what the kernel knows, and keeps no files"),
        ("/sys/kernel", "sysfs shows what the kernel knows, and keeps no files"),
    ],
)
def test_a_directory_that_is_none(gridwright: Command, tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "file").write_text("data")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    ended = gridwright("iotest", "--directory", tmp_path / path, "--json")
    assert ended.status == 2
    assert f"{tmp_path / path}: library directory: {words}" in ended.text
    (problem,) = ended.json["problems"]
    assert problem["remedy"]
    assert (tmp_path / "file").read_text() == "data"
    assert not gridwright.runs.exists(), "nothing was run, so no run is left"


@pytest.mark.parametrize(("size", "streams"), [("900TiB", 1), ("500TiB", 2)])
def test_a_size_that_does_not_fit_is_refused_before_anything_is_written(
    gridwright: Command, library: Path, size: str, streams: int
) -> None:
    ended = gridwright("iotest", "--directory", library, "--size", size, "--streams", str(streams))
    assert ended.status == 3
    assert "library directory: no space is left for the test (ENOSPC)" in ended.text
    assert str(library) in ended.text
    assert "smaller --size" in ended.text
    assert list(library.iterdir()) == []


def test_runs_that_cannot_be_kept_are_refused_before_anything_is_tested(
    gridwright: Command, library: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("data")
    for runs in (tmp_path / "file" / "runs", tmp_path / "file"):
        ended = gridwright("iotest", "--directory", library, "--runs", runs)
        assert ended.status == 2
        assert "file: a file, and runs are kept in a directory" in ended.text
        assert "--runs DIR" in ended.text
        assert list(library.iterdir()) == []
