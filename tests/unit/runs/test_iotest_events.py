"""Events of iotest as they stand in a journal: of this release, and of others."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.messages import MessageError, plain
from gridwright.runs.events import is_silenced
from gridwright.runs.iotest_events import (
    IOTEST_EVENTS,
    IotestEvent,
    LibraryBegun,
    LibraryDone,
    PhaseDone,
    RemovalBegun,
    SampleTaken,
)
from gridwright.runs.phase_record import RecordedNode
from tests.support.records import USED, library_event, phase_event, phase_record, result_event, sample_event

FINDING = Finding("warning", "slow", "it is slow", "make it fast")


def known(line: dict[str, Any]) -> IotestEvent:
    event = IOTEST_EVENTS.read(line)
    assert event is not None
    return event


LINES = [
    {"event": "nodes", "nodes": [plain(RecordedNode(node="n1", cores=2)) | {"of tomorrow": 1}]},
    library_event(),
    library_event() | {"all_cores": 6},
    {"event": "device", "device": {"mount_point": "/srv"}},
    {"event": "scratch", "path": "/srv/.scratch"},
    plain(known(phase_event("write"))) | {"event": "phase", "limit_s": 1.0},
    sample_event("write", 1, written=5),
    sample_event("write", 1, written=5) | {"node": "n1"},
    {"event": "result", "phase": plain(phase_record("write")) | {"of tomorrow": 1}},
    {"event": "sweep", "op": "read", "points": [], "knee_streams": None, "peak_bytes_per_s": None},
    {"event": "removing"},
    {"event": "finding", "level": "info", "name": "x", "text": "y", "remedy": "z"},
    {"event": "problem", "what": "x", "where": None, "field": None, "remedy": "z", "source": None},
    {"event": "done", "status": "failed", "exit": 3},
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["event"])
def test_an_event_is_written_with_the_keys_and_values_it_was_read_with(line: dict[str, Any]) -> None:
    assert json.loads(json.dumps(IOTEST_EVENTS.plain(known(line)))) == line


def test_every_kind_is_tried_here_but_progress() -> None:
    tried = {type(known(line)) for line in LINES}
    progress = {"op": "write", "syncing": False, "elapsed_s": 1.5, "read_bytes": 1, "written_bytes": 2}
    moving = known({"event": "progress", "operations": 0} | progress)
    assert IOTEST_EVENTS.plain(moving) == {"event": "progress", "operations": 0} | progress
    assert len(tried) == 12
    assert type(moving) not in tried


def test_keys_of_another_release_are_kept() -> None:
    line = library_event() | {"colour": "blue"}
    event = known(line)
    assert isinstance(event, LibraryBegun)
    assert event.more == {"colour": "blue"}
    assert IOTEST_EVENTS.plain(event) == line


def test_a_kind_of_another_release_is_not_known() -> None:
    assert IOTEST_EVENTS.read({"event": "of the future"}) is None
    assert IOTEST_EVENTS.read({"no": "event"}) is None
    assert IOTEST_EVENTS.read({"event": ["no", "name"]}) is None


@pytest.mark.parametrize(
    "line", [{"event": "library"}, {"event": "done", "status": "fine", "exit": 0}, {"event": "result"}]
)
def test_what_is_no_event_of_its_kind_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        IOTEST_EVENTS.read(line)


def test_a_sample_of_an_earlier_release_may_lack_what_was_not_measured() -> None:
    line = {"event": "sample", "op": "read", "elapsed_s": 1.0, "interval_s": 1.0}
    event = known(line | {"read_bytes": 5, "written_bytes": 2})
    assert isinstance(event, SampleTaken)
    assert (event.moved_bytes, event.cpu_percent) == (7, None)


def test_a_result_has_the_record_of_its_phase() -> None:
    event = known(result_event("read", per_core=50e6))
    assert isinstance(event, PhaseDone)
    assert event.phase.per_core_bytes_per_s == 50e6
    with pytest.raises(MessageError, match=r"phase.used.direct: 1 is not true or false"):
        known(result_event("read", used=USED | {"direct": 1}))


def test_only_findings_that_are_no_errors_are_silenced() -> None:
    assert is_silenced(FINDING, ["slow"])
    assert not is_silenced(FINDING, ["other"])
    assert not is_silenced(Finding("error", "slow", "it is slow", "make it fast"), ["slow"])
    assert not is_silenced(Problem("slow"), ["slow"])
    assert not is_silenced(RemovalBegun(), ["slow"])
    assert not is_silenced(None, ["slow"])


def test_an_exit_status_is_one_again() -> None:
    event = known({"event": "done", "status": "interrupted", "exit": 130})
    assert event == LibraryDone(status="interrupted", exit=ExitStatus.INTERRUPTED)


def test_a_worker_needs_no_pydantic_to_tell() -> None:
    program = "import sys, gridwright.iotest.worker; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
