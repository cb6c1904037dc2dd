"""Where a run on several nodes and its jobs meet: nothing half written is read, and silence is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from gridwright.runs.worker_process import process_facts
from gridwright.workload import exchange as module
from gridwright.workload.exchange import EVENTS, RESULT, ExchangeDirectory, Heartbeat, Tail, dead_runs
from gridwright.workload.private_directories import PrivateDirectories, remove_run, remove_stale


@pytest.fixture
def exchange(tmp_path: Path) -> ExchangeDirectory:
    return ExchangeDirectory.create(tmp_path / "state")


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.0)


def test_a_document_is_read_whole_or_not_at_all(exchange: ExchangeDirectory) -> None:
    assert exchange.read("0001", RESULT) is None
    exchange.write("0001", RESULT, {"a": "ä\n"})
    assert exchange.read("0001", RESULT) == {"a": "ä\n"}
    exchange.file("0002", RESULT).write_text('{"a": ')
    assert exchange.read("0002", RESULT) is None
    assert exchange.names(RESULT) == {"0001", "0002"}
    exchange.forget("0001")
    assert exchange.names(RESULT) == {"0002"}


def test_lines_are_read_once_and_only_when_whole(exchange: ExchangeDirectory) -> None:
    tail = Tail(exchange.file("a", EVENTS))
    assert tail.read() == []
    exchange.append("a", EVENTS, {"n": 1}, {"n": 2})
    assert tail.read() == [{"n": 1}, {"n": 2}]
    with exchange.file("a", EVENTS).open("ab") as file:
        file.write(b'{"n": 3}\n{"n"')
        file.flush()
        assert tail.read() == [{"n": 3}]
        file.write(b": 4}\n")
    assert tail.read() == [{"n": 4}]
    assert tail.read() == []


def test_a_job_ends_when_it_is_told_to_and_when_its_coordinator_is_silent(
    exchange: ExchangeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat = Heartbeat(exchange.path)
    assert not heartbeat.lost()
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    time.sleep(0.25)
    exchange.beat()
    assert not heartbeat.lost(), "it gave a sign of life, whatever its clock says"
    time.sleep(0.25)
    assert heartbeat.lost()
    told = Heartbeat(exchange.path)
    assert not told.lost()
    exchange.order_stop()
    assert told.lost()
    gone = Heartbeat(exchange.path)
    exchange.remove()
    assert gone.lost()


def test_a_clock_that_is_off_by_hours_stops_no_job(exchange: ExchangeDirectory) -> None:
    heartbeat = Heartbeat(exchange.path)
    os.utime(exchange.path / "alive", (1.0, 1.0))
    assert not heartbeat.lost()


def test_only_runs_of_dead_coordinators_are_dead(tmp_path: Path, exchange: ExchangeDirectory) -> None:
    state = tmp_path / "state"
    assert dead_runs(state) == []
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead = ExchangeDirectory.create(state)
    facts = process_facts() | {"pid": ended.pid}
    (dead.path / "run.json").write_text(json.dumps({"process": facts}))
    elsewhere = ExchangeDirectory.create(state)
    (elsewhere.path / "run.json").write_text(json.dumps({"process": facts | {"host": "other"}}))
    assert dead_runs(state) == [dead]
    for file in ("run.json", "alive"):
        os.utime(elsewhere.path / file, (1.0, 1.0))
    assert {each.path for each in dead_runs(state)} == {dead.path, elsewhere.path}


def test_directories_of_a_run_that_is_over_are_removed_from_any_node(
    tmp_path: Path, exchange: ExchangeDirectory
) -> None:
    work, util = tmp_path / "work", tmp_path / "util"
    work.mkdir()
    util.mkdir()
    lost, kept = (
        PrivateDirectories.create(work, util, keep=keep, run=exchange.path) for keep in (False, True)
    )
    other = PrivateDirectories.create(work, util, keep=False)
    (lost.work / "0001-sort").mkdir()
    assert remove_stale(work) == [], "the run goes on, and so does this process"
    assert remove_run(util, exchange.path) == [lost.util]
    exchange.remove()
    assert remove_stale(work) == [lost.work]
    assert {*work.iterdir(), *util.iterdir()} == {kept.work, kept.util, other.work, other.util}


def test_directories_of_a_grid_whose_state_is_not_to_be_seen_are_left_alone(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    exchange = ExchangeDirectory(tmp_path / "elsewhere" / "workload" / "abcd1234")
    made = PrivateDirectories.create(work, work, keep=False, run=exchange.path)
    assert remove_stale(work) == []
    assert made.work.exists()
