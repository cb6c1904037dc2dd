"""What the parser refuses reads like every other problem: where, what, and what to do."""

from __future__ import annotations

import json
import sys

import pytest

from gridwright.cli.main import run

REFUSED = {
    "statsu": ("statsu: gridwright has no such command", "did you mean status? gridwright --help shows all"),
    "qqqq": ("qqqq: gridwright has no such command", "see gridwright --help"),
    "runs lst": (
        "lst: gridwright runs has no such command",
        "did you mean list? gridwright runs --help shows all",
    ),
    "prove --sekonds 3": (
        "--sekonds: gridwright prove has no such flag",
        "did you mean --seconds? gridwright prove --help shows all",
    ),
    "-x": ("-x: gridwright has no such flag", "see gridwright --help"),
    "prove --seconds": ("--seconds: it needs a value", "see gridwright prove --help"),
    "prove --json=3": ("--json: it takes no value", "see gridwright prove --help"),
    "iotest --streams x": ("--streams: its value should be a valid integer", "see gridwright iotest --help"),
    "plan --choose 0": (
        "--choose: its value should be greater than or equal to 1",
        "see gridwright plan --help",
    ),
    "iotest --runs=": (
        "--runs: the path is empty",
        "name a file or a directory, or leave it out",
    ),
    "cancel": ("JOB...: it is missing", "write gridwright cancel JOB..."),
    "lab exec": ("NODE: it is missing", "write gridwright lab exec NODE -- COMMAND..."),
    "runs show a b c": (
        "b c: gridwright runs show takes no further arguments",
        "see gridwright runs show --help",
    ),
}


def refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["gridwright", *arguments])
    monkeypatch.setattr("gridwright.cli.main.protect_streams", lambda: None)
    with pytest.raises(SystemExit) as ended:
        run()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("typed", REFUSED)
def test_a_refusal_says_where_and_what_to_do(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    what, remedy = REFUSED[typed]
    assert refused(typed.split(), monkeypatch) == 2
    assert capsys.readouterr() == ("", f"error: {what}\n  {remedy}\n")


def test_a_refusal_is_a_document_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["cancel", "--json"], monkeypatch) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["command"], document["ok"]) == ("cancel", False)
    (problem,) = document["problems"]
    assert (problem["where"], problem["what"]) == ("JOB...", "it is missing")


@pytest.mark.parametrize("group", ["", "runs", "lab"])
def test_a_group_without_a_command_shows_its_help(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(group.split(), monkeypatch) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Usage: gridwright")
