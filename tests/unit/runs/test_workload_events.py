"""Events of the workload as they stand in a journal, on the way to it, and of other releases."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gridwright.errors import ExitStatus, Problem
from gridwright.messages import MessageError, encode, plain
from gridwright.runs.workload_events import WORKLOAD_EVENTS, DataFailed, LaunchEnded, WorkloadEvent
from tests.support.records import launch_record, workload_sample

BEGUN = {"event": "workload", "matrix": "own", "scale": "tiny", "seed": 1, "streams": 2, "launches": 4}
LAUNCH: dict[str, Any] = {"event": "launch", "launch": plain(launch_record(1, "sort"))}
STARTED = {"event": "launch-started", "time": 1.0, "number": 1, "label": "sort", "stream": 1}
LINES: list[dict[str, Any]] = [
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
    {"event": "finding", "level": "info", "name": "x", "text": "y", "remedy": "z"},
    {"event": "problem", "what": "x", "where": None, "field": None, "remedy": "z", "source": None},
    {"event": "done", "status": "failed", "exit": 3},
]


def known(line: dict[str, Any]) -> WorkloadEvent:
    event = WORKLOAD_EVENTS.read(line)
    assert event is not None
    return event


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["event"])
def test_an_event_is_written_with_the_keys_and_values_it_was_read_with(line: dict[str, Any]) -> None:
    assert json.loads(json.dumps(WORKLOAD_EVENTS.plain(known(line)))) == line


@pytest.mark.parametrize("line", [BEGUN | {"colour": "blue"}, STARTED | {"colour": "blue"}])
def test_keys_of_another_release_are_kept(line: dict[str, Any]) -> None:
    assert WORKLOAD_EVENTS.plain(known(line)) == line


@pytest.mark.parametrize(
    "line", [{"event": "launch"}, {"event": "sample", "op": "write"}, {"event": "workload"}]
)
def test_what_is_no_event_of_its_kind_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        WORKLOAD_EVENTS.read(line)


def test_a_launch_has_its_record() -> None:
    assert known(LAUNCH) == LaunchEnded(launch=launch_record(1, "sort"))
    with pytest.raises(MessageError, match=r"launch.bound_by: 'magic' is none of 'cpu'"):
        known(LAUNCH | {"launch": LAUNCH["launch"] | {"bound_by": "magic"}})


def test_what_is_wrong_with_the_data_keeps_its_exit_status_on_the_way_to_the_agent() -> None:
    failed = DataFailed(problems=[Problem("full", remedy="make space")], exit=ExitStatus.INPUT)
    assert known(json.loads(encode(WORKLOAD_EVENTS.plain(failed)))) == failed


def test_a_node_needs_no_pydantic_to_tell() -> None:
    program = "import sys, gridwright.workload.node_jobs.launch; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
