"""-q and -v: every command has them, errors and results stay, and what is handed on keeps its own."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.cli import verbosity
from gridwright.cli.main import app
from gridwright.commands import run_here
from tests.support.command import GRIDWRIGHT
from tests.unit.cli.test_startup import verbs

HANDS_ON = {("submit",), ("lab", "exec")}


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What flags change for the rest of a process is as it was."""
    monkeypatch.setattr(verbosity, "_quiet", False)
    log = logging.getLogger("gridwright")
    handlers, level = log.handlers[:], log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


def gridwright(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GRIDWRIGHT, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_every_command_takes_both_flags_but_those_that_hand_on_a_command_line() -> None:
    for words, command in verbs().items():
        if not hasattr(command, "commands"):
            flags = {flag for each in command.params for flag in each.opts}
            assert ({"-q", "-v", "--quiet", "--verbose"} <= flags) == (words not in HANDS_ON), words


def test_quiet_leaves_the_result_and_nothing_else(tmp_path: Path) -> None:
    command = (
        "iotest",
        "--directory",
        tmp_path,
        "--size",
        "64KiB",
        "--phases",
        "write",
        "--runs",
        tmp_path / "r",
    )
    loud, quiet = gridwright(*command), gridwright(*command, "-q")
    assert "write (" in loud.stderr
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert "write" in quiet.stdout


@pytest.mark.parametrize("place", ["before", "behind"])
def test_quiet_leaves_errors(place: str) -> None:
    words = ["check", "/nowhere.yaml"]
    done = gridwright(*(["-q", *words] if place == "before" else [*words, "-q"]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: /nowhere.yaml")


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("flag", [[], ["-v"]])
def test_verbose_shows_the_commands_that_are_run(
    flag: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app([*flag, "runs", "list", "--runs", str(tmp_path)], standalone_mode=False)
    capsys.readouterr()
    run_here([sys.executable, "-c", "import sys; sys.exit(3)"])
    shown = capsys.readouterr().err
    assert (f"ran {sys.executable} -c import sys; sys.exit(3): status 3, " in shown) == bool(flag)
