"""Events as they stand in a journal, and on the way to it: of this release, and of others."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.messages import MessageError, encode, plain
from gridwright.runs.iotest_events import (
    IOTEST_EVENTS,
    IotestEvent,
    LibraryBegun,
    LibraryDone,
    PhaseDone,
    RemovalBegun,
    SampleTaken,
)
from gridwright.runs.journal import is_silenced
from gridwright.runs.phase_record import RecordedNode
from gridwright.runs.workload_events import WORKLOAD_EVENTS, DataFailed, LaunchEnded, WorkloadEvent
from tests.support.records import (
    USED,
    launch_record,
    library_event,
    phase_event,
    phase_record,
    result_event,
    sample_event,
    workload_sample,
)

FINDING = Finding("warning", "slow", "it is slow", "make it fast")
BEGUN = {"event": "workload", "matrix": "own", "scale": "tiny", "seed": 1, "streams": 2, "launches": 4}
LAUNCH: dict[str, Any] = {"event": "launch", "launch": plain(launch_record(1, "sort"))}
STARTED = {"event": "launch-started", "time": 1.0, "number": 1, "label": "sort", "stream": 1}


def of_iotest(line: dict[str, Any]) -> IotestEvent:
    event = IOTEST_EVENTS.read(line)
    assert event is not None
    return event


def of_workload(line: dict[str, Any]) -> WorkloadEvent:
    event = WORKLOAD_EVENTS.read(line)
    assert event is not None
    return event


OF_BOTH: list[dict[str, Any]] = [
    {"event": "finding", "level": "info", "name": "x", "text": "y", "remedy": "z"},
    {"event": "problem", "what": "x", "where": None, "field": None, "remedy": "z", "source": None},
    {"event": "done", "status": "failed", "exit": 3},
]
IOTEST_LINES = [
    {"event": "nodes", "nodes": [plain(RecordedNode(node="n1", cores=2)) | {"of tomorrow": 1}]},
    library_event(),
    library_event() | {"all_cores": 6},
    {"event": "device", "device": {"mount_point": "/srv"}},
    {"event": "scratch", "path": "/srv/.scratch"},
    plain(of_iotest(phase_event("write"))) | {"event": "phase", "limit_s": 1.0},
    sample_event("write", 1, written=5),
    sample_event("write", 1, written=5) | {"node": "n1"},
    {"event": "result", "phase": plain(phase_record("write")) | {"of tomorrow": 1}},
    {"event": "sweep", "op": "read", "points": [], "knee_streams": None, "peak_bytes_per_s": None},
    {"event": "removing"},
    *OF_BOTH,
]
WORKLOAD_LINES = [
    BEGUN,
    BEGUN | {"matrix": None, "scale": None, "seed": None},
    BEGUN | {"copies": 1, "nodes": ["n1", "n2"]},
    {"event": "device", "library": "data", "device": {"mount_point": "/srv"}},
    {"event": "data", "state": "waiting"},
    {"event": "data", "state": "making", "done": 0, "of": 3},
    {"event": "table", "table": "accounts", "copy": 0, "bytes": 5, "sha256": "ab"},
    {"event": "ready", "directory": "/srv", "bytes": 5, "tables": 1, "made": 1, "seconds": 0.5},
    {"event": "running", "time": 1.0, "streams": 2},
    STARTED,
    STARTED | {"node": "n1"},
    {"event": "launch-lost", "time": 1.0, "node": "n1", "number": 1, "begun": True},
    LAUNCH,
    LAUNCH | {"output": "text"},
    {"event": "sample"} | workload_sample(1),
    {"event": "progress"},
    {"event": "chore", "exit": 0, "removed": ["/srv/data"], "locked": False},
    *OF_BOTH,
]
LINES = [(IOTEST_EVENTS, each) for each in IOTEST_LINES] + [
    (WORKLOAD_EVENTS, each) for each in WORKLOAD_LINES
]


@pytest.mark.parametrize(("events", "line"), LINES)
def test_an_event_is_written_with_the_keys_and_values_it_was_read_with(
    events: Any, line: dict[str, Any]
) -> None:
    assert json.loads(json.dumps(events.plain(events.read(line)))) == line


def test_every_kind_is_tried_here_but_progress() -> None:
    tried = {type(of_iotest(line)) for line in IOTEST_LINES}
    progress = {"op": "write", "syncing": False, "elapsed_s": 1.5, "read_bytes": 1, "written_bytes": 2}
    moving = of_iotest({"event": "progress", "operations": 0} | progress)
    assert IOTEST_EVENTS.plain(moving) == {"event": "progress", "operations": 0} | progress
    assert len(tried) == 12
    assert type(moving) not in tried


def test_keys_of_another_release_are_kept() -> None:
    line = library_event() | {"colour": "blue"}
    event = of_iotest(line)
    assert isinstance(event, LibraryBegun)
    assert event.more == {"colour": "blue"}
    assert IOTEST_EVENTS.plain(event) == line
    for began in (BEGUN | {"colour": "blue"}, STARTED | {"colour": "blue"}):
        assert WORKLOAD_EVENTS.plain(of_workload(began)) == began


def test_a_kind_of_another_release_is_not_known() -> None:
    assert IOTEST_EVENTS.read({"event": "of the future"}) is None
    assert IOTEST_EVENTS.read({"no": "event"}) is None
    assert IOTEST_EVENTS.read({"event": ["no", "name"]}) is None


@pytest.mark.parametrize(
    ("events", "line"),
    [
        (IOTEST_EVENTS, {"event": "library"}),
        (IOTEST_EVENTS, {"event": "done", "status": "fine", "exit": 0}),
        (IOTEST_EVENTS, {"event": "result"}),
        (WORKLOAD_EVENTS, {"event": "launch"}),
        (WORKLOAD_EVENTS, {"event": "sample", "op": "write"}),
        (WORKLOAD_EVENTS, {"event": "workload"}),
    ],
)
def test_what_is_no_event_of_its_kind_is_refused(events: Any, line: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        events.read(line)


def test_a_sample_of_an_earlier_release_may_lack_what_was_not_measured() -> None:
    line = {"event": "sample", "op": "read", "elapsed_s": 1.0, "interval_s": 1.0}
    event = of_iotest(line | {"read_bytes": 5, "written_bytes": 2})
    assert isinstance(event, SampleTaken)
    assert (event.moved_bytes, event.cpu_percent) == (7, None)


def test_a_result_has_the_record_of_its_phase() -> None:
    event = of_iotest(result_event("read", per_core=50e6))
    assert isinstance(event, PhaseDone)
    assert event.phase.per_core_bytes_per_s == 50e6
    with pytest.raises(MessageError, match=r"phase.used.direct: 1 is not true or false"):
        of_iotest(result_event("read", used=USED | {"direct": 1}))


def test_only_findings_that_are_no_errors_are_silenced() -> None:
    assert is_silenced(FINDING, ["slow"])
    assert not is_silenced(FINDING, ["other"])
    assert not is_silenced(Finding("error", "slow", "it is slow", "make it fast"), ["slow"])
    assert not is_silenced(Problem("slow"), ["slow"])
    assert not is_silenced(RemovalBegun(), ["slow"])
    assert not is_silenced(None, ["slow"])


def test_an_exit_status_is_one_again() -> None:
    event = of_iotest({"event": "done", "status": "interrupted", "exit": 130})
    assert event == LibraryDone(status="interrupted", exit=ExitStatus.INTERRUPTED)


def test_a_launch_has_its_record() -> None:
    assert of_workload(LAUNCH) == LaunchEnded(launch=launch_record(1, "sort"))
    with pytest.raises(MessageError, match=r"launch.bound_by: 'magic' is none of 'cpu'"):
        of_workload(LAUNCH | {"launch": LAUNCH["launch"] | {"bound_by": "magic"}})


def test_what_is_wrong_with_the_data_keeps_its_exit_status_on_the_way_to_the_agent() -> None:
    failed = DataFailed(problems=[Problem("full", remedy="make space")], exit=ExitStatus.INPUT)
    assert of_workload(json.loads(encode(WORKLOAD_EVENTS.plain(failed)))) == failed


@pytest.mark.parametrize("module", ["gridwright.iotest.worker", "gridwright.workload.node_jobs.launch"])
def test_a_node_needs_no_pydantic_to_tell(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
