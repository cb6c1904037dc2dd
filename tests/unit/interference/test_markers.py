"""Runs on one file system find each other, and what killed ones left is ignored."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from gridwright.interference import presence as presence_module
from gridwright.interference.heartbeat import (
    MARKER,
    MOST_MARKERS,
    STALE_S,
    Announcement,
    Lookout,
    Sighting,
    announcement,
    nearby,
    read_marker,
)
from gridwright.interference.presence import Presence
from gridwright.runs.load_record import OtherRun
from tests.support.as_user import MALLORY, as_user, open_to_all
from tests.support.command import wait_until

US = Announcement("t1", "run-1", "here", "me", "iotest")
THEM = Announcement("t2", "run-2", "n2", "alice", "workload")
OTHER = OtherRun("run-2", "n2", "alice", "workload")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def seen(
    lookout: Lookout, beats: int, changed: float, ours: float = 5000.0, who: Announcement = THEM
) -> bool:
    return OTHER in lookout.living({Path("m"): Sighting(who, beats, changed)}, ours)


def test_a_fresh_marker_counts_at_once() -> None:
    assert seen(Lookout(US, Clock()), 7, changed=4999.0)


def test_one_of_the_same_run_on_another_node_does_not() -> None:
    lookout = Lookout(US, Clock())
    same = Announcement("t1", "run-1", "n2", "me", "iotest")
    assert lookout.living({Path("m"): Sighting(same, 7, 5000.0)}, 5000.0) == set()


def test_a_marker_of_a_killed_run_is_ignored_and_counts_again_only_if_it_moves() -> None:
    clock = Clock()
    lookout = Lookout(US, clock)
    assert not seen(lookout, 7, changed=1000.0)
    clock.now += 1
    assert not seen(lookout, 7, changed=1000.0)
    assert seen(lookout, 8, changed=1001.0), "its counter moves: only its clock is wrong"


def test_a_run_that_is_killed_while_we_look_is_soon_forgotten() -> None:
    clock = Clock()
    lookout = Lookout(US, clock)
    assert seen(lookout, 7, changed=5000.0)
    clock.now += STALE_S - 1
    assert seen(lookout, 7, changed=5000.0)
    clock.now += 2
    assert not seen(lookout, 7, changed=5000.0)


def test_a_marker_from_the_future_must_move_to_count() -> None:
    assert not seen(Lookout(US, Clock()), 7, changed=9000.0)


def test_libraries_side_by_side_are_looked_into_and_other_file_systems_are_not(tmp_path: Path) -> None:
    for name in ("grid/data", "grid/work", "other"):
        (tmp_path / name).mkdir(parents=True)
    found = nearby(tmp_path / "grid" / "data")
    assert {tmp_path / "grid" / "data", tmp_path / "grid" / "work", tmp_path / "other"} <= set(found)
    device = tmp_path.stat().st_dev
    assert {path.stat().st_dev for path in found} == {device}


@pytest.fixture
def heartbeats() -> Iterator[list[Presence]]:
    started: list[Presence] = []
    yield started
    for each in started:
        each.end()


def heartbeat(heartbeats: list[Presence], run: str, library: Path, *beside: Path) -> tuple[Presence, Path]:
    scratch = library / f".gridwright-iotest-{run}"
    scratch.mkdir(mode=0o711)
    presence = Presence()
    heartbeats.append(presence)
    presence.begin(
        announcement(f"token of {run}", run, "iotest"), scratch=[scratch], libraries=[library, *beside]
    )
    wait_until(
        lambda: read_marker(scratch / MARKER),
        seconds=20,
        what="a marker",
        last=lambda: list(scratch.iterdir()),
    )
    return presence, scratch


def test_two_runs_see_each_other_until_one_ends(tmp_path: Path, heartbeats: list[Presence]) -> None:
    begin = time.monotonic()
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    one, _ = heartbeat(heartbeats, "run-1", data, work)
    other, scratch = heartbeat(heartbeats, "run-2", work)

    def sees(presence: Presence, run: str, since: float) -> bool:
        return run in {each.run for each in presence.seen(since, time.monotonic())[0]}

    for presence, run in ((other, "run-1"), (one, "run-2")):
        wait_until(
            lambda presence=presence, run=run: sees(presence, run, begin) or None,  # type: ignore[misc]
            seconds=20,
            what=run,
            last=lambda presence=presence: presence,  # type: ignore[misc]
        )
    other.end(kept=True)
    assert not (scratch / MARKER).exists()
    wait_until(
        lambda: not sees(one, "run-2", time.monotonic()) or None,
        seconds=20,
        what="the second to be forgotten",
        last=lambda: one,
    )
    assert sees(one, "run-2", begin), "it was there for a part of that time"


def fault_of(presence: Presence) -> str:
    begin = time.monotonic()
    return wait_until(
        lambda: presence.seen(begin, time.monotonic())[1],
        seconds=20,
        what="a fault",
        last=lambda: presence,
    )


def test_a_heartbeat_that_ends_is_a_finding(tmp_path: Path, heartbeats: list[Presence]) -> None:
    presence, _ = heartbeat(heartbeats, "run-1", tmp_path)
    assert presence.process is not None
    presence.process.kill()
    assert fault_of(presence) == "the look-out for them ended (exit status -9)"
    begin = time.monotonic()
    assert presence.seen(begin, begin)[1], "it goes on to be one"


def test_an_error_in_the_heartbeat_is_a_finding_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "gridwright.interference.heartbeat"
    fails = f"import {module} as it; it.read_marker = lambda _: 1 / 0; it.main()"
    monkeypatch.setattr(presence_module, "_COMMAND", [sys.executable, "-P", "-c", fails])
    scratch = tmp_path / ".gridwright-iotest-run-1"
    scratch.mkdir(mode=0o711)
    (tmp_path / ".gridwright-other").mkdir()
    presence = Presence()
    presence.begin(US, scratch=[scratch], libraries=[tmp_path])
    assert fault_of(presence) == "the look-out for them ended: ZeroDivisionError: division by zero"
    assert not (scratch / MARKER).exists(), "its marker would be taken for that of a killed run"
    presence.end()


def test_a_heartbeat_that_cannot_be_started_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence_module, "_COMMAND", [str(tmp_path / "none")])
    presence = Presence()
    presence.begin(US, scratch=[], libraries=[tmp_path])
    assert "cannot be started: No such file" in fault_of(presence)


@pytest.mark.root
def test_a_flood_of_markers_is_read_within_bounds_and_is_a_finding(
    tmp_path: Path, heartbeats: list[Presence]
) -> None:
    open_to_all(tmp_path)
    library = tmp_path / "library"
    library.mkdir()
    library.chmod(0o1777)

    def mallory() -> None:
        for number in range(2 * MOST_MARKERS):
            place = library / f".gridwright-{number}"
            place.mkdir()
            text = json.dumps(asdict(Announcement(f"t{number}", f"{number}", "h", "u", "iotest")))
            (place / MARKER).write_text(f"{1:012d}\n{text}\n")

    as_user(MALLORY, mallory)
    begin = time.monotonic()
    one, _ = heartbeat(heartbeats, "run-1", library)
    fault = fault_of(one)
    assert f"more than {MOST_MARKERS} directories .gridwright-* lie in or beside {library}" in fault
    other, _ = heartbeat(heartbeats, "run-2", library)

    def runs() -> set[str]:
        return {each.run for each in one.seen(begin, time.monotonic())[0]}

    wait_until(lambda: "run-2" in runs() or None, seconds=20, what="a new run", last=runs)
    assert len(runs()) <= MOST_MARKERS + 1
    other.end()


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, '{"run": ["a"]}', "{}", "null", '{"token": 1, "run": 1, "host": 1, "user": 1, "what": 1}'],
)
def test_what_is_no_marker_is_skipped(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(f"000000000001\n{text}\n")
    assert read_marker(tmp_path / MARKER) is None


@pytest.mark.root
def test_a_marker_of_somebody_says_whose_file_it_is_in_few_and_readable_words(tmp_path: Path) -> None:
    said = {"token": "t", "run": "\ud800" + "r" * 9999, "host": "h", "user": "root", "what": "iotest"}
    (tmp_path / MARKER).write_text(f"000000000001\n{json.dumps(said)}\n")
    os.chown(tmp_path / MARKER, 2002, 2002)
    sighting = read_marker(tmp_path / MARKER)
    assert sighting is not None
    assert sighting.announcement.user == "2002"
    assert len(sighting.announcement.run.encode("utf-8")) < 1000
