"""A worker on another machine: what stands for one here gets its orders by its input alone."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from gridwright.runs import worker_process
from gridwright.runs.worker_process import WorkerProcess

WORKER = """\
import json, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit("told by a signal"))
asked = json.loads(sys.stdin.readline())
print(json.dumps({"event": "begun", "asked": asked}), flush=True)
for line in sys.stdin:
    print(json.dumps({"event": "heard", "line": line}), flush=True)
print('{"event": "done"}', flush=True)
"""


def elsewhere(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_worker_elsewhere_hears_that_we_live_and_stops_with_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "BEAT_S", 0.05)
    stop = threading.Event()
    seen = []
    with WorkerProcess("none", {"do": 1}, tmp_path / "log", elsewhere(WORKER)) as worker:
        for event in worker.events(stop):
            seen.append(event)
            if [each["event"] for each in seen].count("heard") == 2:
                stop.set()
    assert seen[0] == {"event": "begun", "asked": {"do": 1}}
    assert [each for each in seen if each["event"] == "heard"][:2] == [{"event": "heard", "line": "\n"}] * 2
    assert seen[-1] == {"event": "done"}
    assert (tmp_path / "log").read_text() == "", "no signal is sent to what only passes streams on"


def test_a_lost_connection_is_told_in_its_own_words(tmp_path: Path) -> None:
    lost = (
        "import sys; sys.stdin.close(); print('Connection to login1 closed.', file=sys.stderr); sys.exit(255)"
    )
    with WorkerProcess("none", {}, tmp_path / "log", elsewhere(lost)) as worker:
        assert list(worker.events(threading.Event())) == []
    assert worker.end == "it ended with exit status 255: Connection to login1 closed."


def test_a_worker_elsewhere_that_is_silent_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SILENCE_S", 0.3)
    monkeypatch.setattr(worker_process, "GRACE_S", 0.1)
    silent = "import time; time.sleep(60)"
    with WorkerProcess("none", {}, tmp_path / "log", elsewhere(silent)) as worker:
        assert list(worker.events(threading.Event())) == []
    assert (worker.hangs, worker.end) == (True, "it does not answer")
