"""Commands on this machine end in time, whatever they do."""

from __future__ import annotations

import itertools
import os
import signal
import time

import psutil
import pytest

from gridwright.commands import CommandPlace, CommandStopped, CommandTalkative, run_bounded, run_here
from gridwright.errors import ExitStatus, GridwrightError


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
    assert caught.value.problems[0].remedy == "install what no-such-command belongs to, or correct PATH"


def test_nothing_is_read_from_the_terminal_and_words_are_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run_here(["sh", "-c", "cat; echo $LC_ALL"], timeout_s=5).stdout == b"C.UTF-8\n"


def test_input_and_output_larger_than_a_pipe_pass_through() -> None:
    data = bytes(range(256)) * 4096
    assert run_bounded(["cat"], stdin=data).stdout == data
    assert run_bounded(["true"], stdin=data).status == 0


def test_a_command_that_prints_without_end_is_stopped() -> None:
    started = time.monotonic()
    with pytest.raises(CommandTalkative, match="yes has printed more than 100000 bytes") as caught:
        run_bounded(["yes"], most_bytes=100_000, timeout_s=60, at=CommandPlace(where="here"))
    assert caught.value.problems[0].where == "here"
    assert time.monotonic() - started < 10


def test_a_daemon_that_is_left_behind_is_not_waited_for() -> None:
    started = time.monotonic()
    command = ["sh", "-c", "echo begun; sleep 30 & echo $! ; exit 3"]
    done = run_bounded(command, leaves_daemon=True, timeout_s=20)
    assert time.monotonic() - started < 10
    words = done.stderr.split()
    os.kill(int(words[1]), signal.SIGKILL)
    assert (done.status, words[0]) == (3, b"begun")


def test_no_child_is_left_behind() -> None:
    with pytest.raises(GridwrightError):
        run_bounded(["sh", "-c", "sleep 61 & echo $!; sleep 61"], timeout_s=0.5)
    assert run_bounded(["pgrep", "-f", "^sleep 61$"]).status == 1


def test_a_command_that_nobody_waits_for_any_more_is_killed() -> None:
    answers = itertools.chain([False, False], itertools.repeat(True))
    with pytest.raises(CommandStopped) as stopped:
        run_here(["sleep", "60"], timeout_s=60, stop=lambda: next(answers))
    assert stopped.value.problems[0].what == "sleep 60 was stopped"
    alive = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    assert not [each for each in alive if "sleep" in each.cmdline()]
