"""Commands and looks that hang, fail or say nothing end in time, with what they said."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from gridwright.node_programs.scratch.apply import disk_errors
from gridwright.node_programs.scratch.commands import run, tool, within


def test_a_command_that_ends_tells_how() -> None:
    ended = run(["sh", "-c", "echo out; echo err >&2; exit 7"], 10)
    assert (ended.status, ended.well) == (7, False)
    assert sorted(ended.output.split()) == ["err", "out"]
    assert "ended with status 7" in str(ended)


def test_a_command_that_asks_gets_no_answer() -> None:
    assert run(["sh", "-c", "read -r answer || echo nobody"], 10).output == "nobody\n"


def test_a_command_and_its_children_are_killed_at_their_limit(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    begun = time.monotonic()
    ended = run(["sh", "-c", f"echo so far; sleep 60 & echo $! > {mark}; wait"], 0.5)
    assert time.monotonic() - begun < 5
    assert ended.status is None
    assert "did not end in time" in str(ended)
    assert "so far" in ended.output
    child = int(mark.read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "\nState:\tZ" in Path(f"/proc/{child}/status").read_text():
            break
        time.sleep(0.02)
    else:
        pytest.fail("the child of the command goes on")


def test_a_command_that_is_not_there_is_an_ending_like_any_other() -> None:
    ended = run(["no-such-command"], 10)
    assert not ended.well
    assert "no-such-command: No such file or directory" in str(ended)


def test_tools_of_the_administrator_are_found_without_them_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert tool("sh") is not None
    assert tool("no-such-command") is None


def test_a_look_that_hangs_is_left() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.3, lambda: time.sleep(60))
    assert time.monotonic() - begun < 30


def test_a_look_gives_its_data_or_its_error() -> None:
    assert within(10, lambda: {"a": [1, "b"], "big": "x" * 200_000})["a"] == [1, "b"]
    with pytest.raises(OSError, match="Input/output") as error:
        within(10, lambda: (_ for _ in ()).throw(OSError(errno.EIO, os.strerror(errno.EIO))))
    assert error.value.errno == errno.EIO


def test_the_kernel_s_words_on_a_disk_are_found(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "3,100,5000000,-;I/O error, dev nvme1n1, sector 8 (too early)\n"
        "3,101,90000000,-;I/O error, dev nvme1n1, sector 2048 op 0x1:(WRITE)\n"
        " SUBSYSTEM=block\n"
        "3,102,91000000,-;I/O error, dev nvme10n1, sector 16\n"
        "6,103,92000000,-;nvme1n1: p1 p2\n"
    )
    assert disk_errors(["nvme1n1"], 80.0, log) == ("I/O error, dev nvme1n1, sector 2048 op 0x1:(WRITE)",)
    assert disk_errors(["nvme1n1"], 80.0, tmp_path / "nothing") == ()
