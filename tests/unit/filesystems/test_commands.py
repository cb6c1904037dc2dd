"""Commands on this machine end in time, whatever they do."""

from __future__ import annotations

import time

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.commands import run_here


def test_what_a_command_left() -> None:
    done = run_here(["sh", "-c", "echo out; echo bad >&2; exit 7"])
    assert (done.status, done.stdout, done.stderr) == (7, b"out\n", b"bad\n")
    assert run_here(["sh", "-c", "kill -9 $$"]).status == 137


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    started = time.monotonic()
    with pytest.raises(GridwrightError, match="has not answered for 1 s") as caught:
        run_here(["sh", "-c", "sleep 60 & sleep 60"], timeout_s=1)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert time.monotonic() - started < 10


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(GridwrightError, match="no-such-command cannot be started") as caught:
        run_here(["no-such-command"])
    assert caught.value.problems[0].remedy == "install it: command -v no-such-command"


def test_nothing_is_read_from_the_terminal_and_words_are_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run_here(["sh", "-c", "cat; echo $LC_ALL"], timeout_s=5).stdout == b"C.UTF-8\n"
