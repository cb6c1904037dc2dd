"""`gridwright top`: on a lab with a job and a node that is off, and beside a mount that hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import GRIDWRIGHT, Command, Ended, wait_until
from tests.support.hanging_mount import hanging_mount
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root

WRITER = """
import mmap, os, sys
block = mmap.mmap(-1, 1 << 20)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
print("begun", flush=True)
while True:
    os.pwrite(file, block, 0)
"""


@pytest.fixture
def lab(gridwright: Command, tmp_path: Path) -> Iterator[Lab]:
    with up(nodes_only(gridwright, tmp_path, "toplab", "10.97.41.0/24")) as lab:
        yield lab


def top(lab: Lab) -> tuple[Ended, Any]:
    ended = lab.command("top", lab.spec, "--once", "--json")
    return ended, ended.json


def test_a_job_on_a_node_is_told_with_its_library_and_a_node_that_is_off_is_a_row(
    lab: Lab, tmp_path: Path
) -> None:
    lab.run("compute1", "mkdir", "-p", "/mnt/grid/data")
    job = f"GRIDWRIGHT_JOB_ID=17 exec setsid {sys.executable} -c '{WRITER}' /mnt/grid/data/file"
    lab.run("compute1", "sh", "-c", f"({job}) > /mnt/grid/began 2>&1 & "
            "while ! grep -q begun /mnt/grid/began; do sleep 0.05; done")  # fmt: skip
    ended, document = top(lab)
    assert ended.status == 0, ended.err
    assert [node["node"] for node in document["nodes"]] == ["compute1", "compute2"]
    (seen,) = document["jobs"]
    assert (seen["job"], seen["nodes"], seen["processes"]) == ("17", ["compute1"], 1)
    assert seen["directories"] == ["/mnt/grid/data"]
    assert seen["written_bytes_per_s"] > 0
    (library,) = document["libraries"]
    assert library["libraries"] == ["data", "work", "util"]
    assert library["standing"] == "not-required"
    # The disk is the machine's, and whatever else is written there comes on top.
    assert library["written_bytes_per_s"] > seen["written_bytes_per_s"] / 2
    terminal = Terminal(tmp_path, lab.spec)
    terminal.shows(b"2 nodes \xc2\xb7 Nodes by node")
    lab.fault("power-off", "compute2")
    terminal.shows(b"1 away")
    terminal.press(b"q")
    assert terminal.end() == 0
    ended, document = top(lab)
    assert ended.status == 3
    assert "Traceback" not in ended.err
    away = {node["node"]: node["absent"] for node in document["nodes"]}
    assert away["compute1"] == ""
    assert "compute2" in away["compute2"]
    assert document["jobs"][0]["job"] == "17"
    ended = lab.command("top", lab.spec, "--once", "--json", "--servers", "oss[8-9],compute1")
    assert ended.status == 3
    names = {node["node"]: node["absent"] for node in ended.json["nodes"]}
    assert list(names) == ["compute1", "compute2", "oss8", "oss9"]
    assert names["oss9"] != ""
    assert "oss9" not in ended.json["libraries"][0]["note"], "it is no node whose part is missing"


def test_servers_are_those_of_a_grid_and_have_names(gridwright: Command, tmp_path: Path) -> None:
    ended = gridwright("top", "--once", "--servers", "oss1", cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "servers are reached from the head node of a grid" in ended.err
    gridwright("init", "--provider", "local", cwd=tmp_path)
    ended = gridwright("top", "--once", "--servers", "oss[1-", cwd=tmp_path)
    assert ended.status == 2
    assert '"oss[1-" is not a set of host names' in ended.err


def test_a_mount_that_hangs_is_a_row_and_holds_nothing_up(gridwright: Command, tmp_path: Path) -> None:
    with hanging_mount(tmp_path / "dead") as dead:
        ended = gridwright("top", "--once", "--interval", "0.2s", "--json")
        assert ended.status == 3, ended.err
        rows = {row["mount_point"]: row for row in ended.json["mounts"]}
        assert rows[str(dead)]["silent"].startswith("no answer for")
        assert [row["size_bytes"] > 0 for row in rows.values() if not row["silent"]] != []


class Terminal:
    """A terminal with `gridwright top` on it."""

    def __init__(self, place: Path, *flags: str | Path) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        self.process = subprocess.Popen(
            [GRIDWRIGHT, "top", *map(str, flags)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            cwd=place,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(follower)
        self.shown = b""

    def shows(self, text: bytes) -> None:
        """Wait until it shows a text."""
        deadline = time.monotonic() + 180
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._leader], [], [], min(left, 60))[0], self.shown[-4000:]
            self.shown += os.read(self._leader, 1 << 16)

    def press(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def end(self) -> int:
        """The exit status; what it shows until then is read, as nothing else would let it go on."""
        with contextlib.suppress(OSError):
            while data := os.read(self._leader, 1 << 16):
                self.shown += data
        os.close(self._leader)
        return self.process.wait(30)


LEFT = b"\x1b[?1049l"
"""The terminal goes back to what it showed before (xterm's alternate screen)."""


def test_what_is_watched_on_a_terminal_is_recorded_and_played(gridwright: Command, tmp_path: Path) -> None:
    record = tmp_path / "one.top"
    terminal = Terminal(tmp_path, "--interval", "0.2s", "--record", record)
    terminal.shows(b"Nodes by node")
    terminal.press(b"z")
    terminal.shows(b"Disks by disk")
    wait_until(
        lambda: True if record.read_bytes().count(b"\n") >= 4 else None,
        seconds=30, what="three samples", last=record.stat,
    )  # fmt: skip
    terminal.press(b"q")
    assert terminal.end() == 0
    assert LEFT in terminal.shown
    played = gridwright("top", "--play", record, "--once", "--json")
    assert played.status == 0, played.err
    assert played.json["nodes"][0]["user"] is not None
    again = gridwright("top", "--play", tmp_path / "nowhere", "--once")
    assert (again.status, "cannot be read" in again.err) == (2, True)


def test_an_order_to_stop_gives_the_terminal_back(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--interval", "0.2s")
    terminal.shows(b"Nodes by node")
    terminal.process.terminate()
    assert terminal.end() == 130
    assert LEFT in terminal.shown
    assert b"Traceback" not in terminal.shown


def test_wrong_flags_are_told_together(gridwright: Command) -> None:
    ended = gridwright("top", "--interval", "0s", "--json")
    assert ended.status == 2
    for flag in ("--interval", "--json", "there is no terminal"):
        assert flag in ended.err
    both = gridwright("top", "grid.yaml", "--once", "--play", "one", "--record", "two")
    assert both.status == 2
    assert "--record" in both.err
    assert "--play" in both.err
