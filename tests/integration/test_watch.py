"""`gridwright watch` on a lab with a node that dies and comes back, and on this machine."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gridwright.watch.state import change_marks, read_state
from tests.support.command import Command, Ended, wait_until
from tests.support.lab import nodes_only, up
from tests.support.notice_receivers import SECRET, Hook, hook
from tests.support.skips import needs

SILENCED = "silence: {data-on-one-node: nodes of this lab share nothing}\n"
AT_ONCE = "monitoring: {watch: {open_after: 1, close_after: 1}}\n"


def secret(place: Path) -> Path:
    path = place / "secret"
    path.touch(0o600)
    path.write_text(SECRET)
    return path


def told(taken: Hook) -> list[tuple[str, str, str, str]]:
    """What was received since it was asked last: change, finding, nodes, target."""
    bodies = {headers["webhook-id"]: body for headers, body in taken.requests}
    rows = [row for body in bodies.values() for row in body["changes"]]
    taken.requests.clear()
    return [(row["change"], row["name"], row["nodes"], row["target"]) for row in rows]


@pytest.mark.skipif(os.geteuid() != 0, reason="labs need root")
def test_a_node_that_dies_is_told_once_and_closes_nothing(gridwright: Command, tmp_path: Path) -> None:
    needs("ip", "ssh")
    place = tmp_path / "state"
    with up(nodes_only(gridwright, tmp_path, "watchlab", "10.97.93.0/24")) as lab, hook(500) as taken:
        lab.spec.write_text(lab.spec.read_text() + AT_ONCE + SILENCED)

        def look(*flags: str) -> Ended:
            where = ("--state", place, "--webhook", taken.url, "--secret-file", secret(tmp_path))
            return gridwright("watch", lab.spec, "--once", *map(str, where), *flags)

        sound = look("--json")
        assert (sound.status, sound.json["last_round"]["nodes"]) == (0, 2)
        assert taken.requests == [], "what the spec silences is not told, and nothing else is wrong"

        # All nodes of this lab have the directory.
        assert lab.run("compute1", "rmdir", "/mnt/grid/work").status == 0
        assert look().status == 1
        assert lab.fault("power-off", "compute2").status == 0
        assert lab.run("compute1", "mkdir", "-m", "1777", "/mnt/grid/work").status == 0
        silent = look("--json")
        assert silent.json["last_round"]["silent"] == 1
        there = [(each["name"], each["nodes"]) for each in silent.json["open"]]
        assert sorted(there) == [("library-missing", ["compute2"]), ("node-silent", ["compute2"])]
        assert told(taken) == [
            ("opened", "library-missing", "compute[1-2]", "work"),
            ("closed", "library-missing", "compute1", "work"),
            ("opened", "node-silent", "compute2", ""),
        ]

        assert lab.fault("power-on", "compute2").status == 0
        assert look("--json").json["open"] == []
        assert {row[:3] for row in told(taken)} == {
            ("closed", "node-silent", "compute2"),
            ("closed", "library-missing", "compute2"),
        }
        shown = gridwright("watch", lab.spec, "--status", "--state", str(place))
        assert "Nothing is open." in shown.out and "closed node-silent: compute2" in shown.out
        kinds = [
            (each.kind, each.where)
            for each in change_marks(place, 0.0, time.time())
            if each.link == "node-silent"
        ]
        assert kinds == [("opened", "compute2"), ("closed", "compute2")]


def test_a_watch_of_this_machine_ends_when_it_is_told_to(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        f"filesystems: {{disk: {{type: local, path: {tmp_path}}}}}\nlibraries: {{data: {{}}}}\n{AT_ONCE}"
    )
    place = tmp_path / "state"
    with gridwright.start("watch", spec, "--state", place) as running:

        def rounds() -> int | None:
            state = read_state(place)
            return state.numbers.each or None if state is not None else None

        wait_until(rounds, seconds=30, what="a round", last=lambda: list(place.glob("*")))
        other = gridwright("watch", spec, "--state", place, "--once")
        assert other.status == 3 and f"process {running.process.pid} watches" in other.err
        assert gridwright("watch", spec, "--state", place, "--status").status == 0
        running.signal(signal.SIGTERM)
        assert running.end(seconds=10).status == 130


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--status", "--once"], ["leave out --once"]),
        (["--json"], ["add --once or --status"]),
        (["--all"], ["add --once"]),
        (["--once", "--webhook", "http://example.org/"], ["https://example.org/"]),
        (["--once", "--mail", "nobody"], ["ops@example.org"]),
        (["--once", "--command", "/no/such/program"], ["there is no program /no/such/program"]),
        (["--status"], ["nobody has watched this grid yet", "--state"]),
    ],
)
def test_what_cannot_work_is_refused_in_words(
    gridwright: Command, tmp_path: Path, flags: Sequence[str], words: Sequence[str]
) -> None:
    ended = gridwright("watch", *flags, "--state", tmp_path / "state", cwd=tmp_path)
    assert ended.status in (2, 3)
    for each in words:
        assert each in ended.text


def test_a_round_that_tells_nothing_is_told(gridwright: Command, tmp_path: Path) -> None:
    took: Path = tmp_path / "took"
    page = tmp_path / "page"
    page.write_text(f"#!/bin/sh\ncat >> {took}\n")
    page.chmod(0o755)
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        "name: nolab\nprovider: lab\nfilesystems: {shared: {type: moosefs, path: /mnt/grid}}\n"
        f"libraries: {{data: {{}}}}\nscheduler: {{type: slurm}}\n{AT_ONCE}"
    )
    ended = gridwright("watch", spec, "--once", "--state", tmp_path / "state", "--command", str(page))
    assert ended.status == 3
    assert "opened error watch-round-failed" in ended.err
    document: Any = json.loads(took.read_text())
    assert [row["name"] for row in document["changes"]] == ["watch-round-failed"]
    assert "gridwright up" in document["changes"][0]["remedy"]
