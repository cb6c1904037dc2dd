"""The workload on several nodes: real jobs, real launches, nodes that fail, schedulers that say nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.errors import ExitStatus
from gridwright.runs import worker_process
from gridwright.runs.directory import LoadedRun
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_record import WorkloadRecord
from tests.support.grid_workload import ROOT, GridRuns, started
from tests.support.pretend_grid import can_pretend
from tests.support.skips import NOT_AS_ROOT
from tests.support.workload import running, sh, wait_until_gone

NODES = {"compute1": 4, "compute2": 4, "compute3": 4}
pretended = pytest.mark.skipif(
    not can_pretend(), reason=f"{NOT_AS_ROOT}: UTS and PID namespaces cannot be made"
)


@pytest.fixture(autouse=True)
def _agents_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def grid(tmp_path: Path) -> GridRuns:
    return GridRuns(tmp_path, NODES)


@pytest.fixture
def here(tmp_path: Path) -> GridRuns:
    """The scheduler built into Gridwright: its queue outlives its commands."""
    return GridRuns(tmp_path, None)


@pytest.fixture
def token(tmp_path: Path) -> str:
    return f"stays-{tmp_path.name}"


def record_of(run: LoadedRun) -> WorkloadRecord:
    assert run.workload is not None
    return run.workload


def by_test(run: LoadedRun) -> dict[str, LaunchRecord]:
    return {launch.test: launch for launch in record_of(run).launches}


def long(token: str, name: str = "long", seconds: int = 120) -> dict[str, Any]:
    return {"command": ["sh", "-c", f"sleep {seconds}; true", token], "name": name}


@pretended
def test_a_launch_is_accounted_for_as_on_a_single_node(grid: GridRuns) -> None:
    streams: tuple[list[Any], ...] = (
        [
            {"test": "optimize"},
            sh("head -c 20000000 /dev/zero > $GRIDWRIGHT_WORK/x; echo done", name="write"),
        ],
        [{"test": "sort"}, sh("sleep 0.3; exit 3", name="sad"), ["nonesuch"]],
    )
    status, alone = grid.run(*streams, grid=False)
    assert status == ExitStatus.DONE
    status, together = grid.run(*streams)
    assert status == ExitStatus.DONE, grid.of("problem")
    ours, theirs = by_test(together), by_test(alone)
    assert ours.keys() == theirs.keys()
    for name, launch in ours.items():
        other = theirs[name]
        assert launch.node in NODES
        assert (launch.ok, launch.exit_status, launch.reason) == (other.ok, other.exit_status, other.reason)
        assert (launch.stream, launch.number, launch.cores) == (other.stream, other.number, other.cores)
        assert launch.libraries.keys() == other.libraries.keys()
        for library, moved in launch.libraries.items():
            # An engine that spills also reads what the kernel says of it: a few bytes more or less.
            for way in ("read_bytes", "written_bytes"):
                theirs_moved = getattr(other.libraries[library], way)
                assert getattr(moved, way) == pytest.approx(theirs_moved, rel=0.01), (name, library)
        assert bool(launch.phases) == bool(other.phases)
        assert launch.submitted is not None
        assert launch.log is not None
        assert (together.path / launch.log).read_text().startswith("NOTE: Gridwright")
    assert ours["write"].written_bytes == pytest.approx(theirs["write"].written_bytes, rel=0.01)
    summary = record_of(together).summary
    assert summary.harness_s_mean is not None
    assert summary.queued_s_mean is not None
    assert 0 < summary.queued_s_mean <= summary.harness_s_mean + 0.5
    assert {node.node for node in record_of(together).nodes} == {launch.node for launch in ours.values()}
    assert sum(node.launches for node in record_of(together).nodes) == 5
    assert sum(node.failed for node in record_of(together).nodes) == 2
    assert grid.left() == []


@pytest.mark.thorough
@pretended
def test_samples_tell_what_each_node_did(grid: GridRuns) -> None:
    write = "for i in 1 2 3 4 5 6 7 8; do sleep 0.25; done"
    tests = [{"test": "append"}, {"test": "convert"}]
    _, run = grid.run(tests, tests, [sh(write, name="nap")])
    nodes = {row.node for row in run.samples}
    assert nodes == {launch.node for launch in record_of(run).launches}
    for name in nodes:
        rows = [row for row in run.samples if row.node == name]
        assert all(0 <= (row.cpu_percent or 0.0) <= 100 for row in rows)
        moved = sum(row.moved_bytes for row in rows)
        counted = sum(
            each.read_bytes + each.written_bytes
            for launch in record_of(run).launches
            if launch.node == name
            for each in launch.libraries.values()
        )
        assert moved == counted, "every byte of a launch is in one sample of its node"


@pretended
def test_launches_of_a_lost_node_run_again_elsewhere(grid: GridRuns, token: str) -> None:
    lost: list[str] = []

    def power_off() -> None:
        lost.append(next(event["node"] for event in grid.events if started("first")(event)))
        grid.order(f"power-off {lost[0]}")

    grid.on(started("first"), power_off)
    status, run = grid.run([long(token, "first", 2), ["true"]], [["true"]])
    assert status == ExitStatus.DONE
    first = by_test(run)["first"]
    assert first.reason is None
    assert first.node != lost[0]
    assert (first.restarts, first.lost_on) == (1, lost)
    assert first.real_s == pytest.approx(2.0, abs=0.5), "times are those of the last start"
    assert lost[0] in grid.findings()["workload-requeued"]
    assert "1 (first)" in grid.findings()["workload-requeued"]
    assert record_of(run).summary.failed == 0
    assert [node.lost for node in record_of(run).nodes if node.node == lost[0]] == [1]
    assert len(record_of(run).launches) == 3
    assert grid.left() == [], "what the lost launch left is removed by a job on another node"


@pretended
def test_a_job_that_its_scheduler_gives_up_is_handed_in_again(grid: GridRuns, token: str) -> None:
    grid.on(
        started("first"),
        lambda: grid.order(f"fail {next(e['node'] for e in grid.events if started('first')(e))}"),
    )
    status, run = grid.run([long(token, "first", 2)])
    assert status == ExitStatus.DONE
    (launch,) = record_of(run).launches
    assert (launch.ok, launch.restarts, len(launch.lost_on)) == (True, 1, 1)
    assert "workload-requeued" in grid.findings()


@pytest.mark.thorough
@pretended
def test_a_launch_that_loses_every_node_fails_and_says_so(tmp_path: Path, token: str) -> None:
    grid = GridRuns(tmp_path, {f"compute{number}": 4 for number in range(1, 5)})

    def fail_it() -> None:
        grid.on(started("first"), fail_it)
        grid.order(f"fail {grid.of('launch-started')[-1]['node']}")

    grid.on(started("first"), fail_it)
    status, run = grid.run([long(token, "first"), ["true"]])
    assert status == ExitStatus.DONE
    launches = by_test(run)
    assert launches["first"].reason is not None
    assert "its node was lost" in launches["first"].reason
    assert len(launches["first"].lost_on) == 3
    assert launches["first"].real_s is None
    assert launches["true"].ok, "the stream goes on"
    assert record_of(run).met is False


@pretended
def test_a_submission_whose_answer_is_lost_is_not_made_twice(grid: GridRuns, tmp_path: Path) -> None:
    count = tmp_path / "count"
    grid.on(lambda event: event["event"] == "running", lambda: grid.order("lose"))
    status, run = grid.run([sh(f"echo x >> {count}; sleep 0.2", name="once")])
    assert status == ExitStatus.DONE
    assert count.read_text() == "x\n"
    assert len(record_of(run).launches) == 1
    assert "workload-scheduler-silent" in grid.findings()


@pretended
def test_a_deaf_scheduler_delays_nothing_that_runs(grid: GridRuns) -> None:
    def deafen() -> None:
        grid.order("deaf")
        grid.on(lambda event: event["event"] == "launch", (grid.control / "deaf").unlink)

    grid.on(started("first"), deafen)
    status, run = grid.run([sh("sleep 3", name="first"), sh("true", name="second")])
    assert status == ExitStatus.DONE
    assert [launch.reason for launch in record_of(run).launches] == [None, None]
    assert "workload-scheduler-silent" in grid.findings()


@pretended
def test_a_run_can_be_stopped(grid: GridRuns, token: str) -> None:
    began: list[float] = []

    def stop() -> None:
        began.append(time.monotonic())
        grid.stop.set()

    grid.on(started("nap"), stop)
    status, run = grid.run([["true"], long(token, "nap"), ["true"]], [long(token)])
    assert status == ExitStatus.INTERRUPTED
    assert time.monotonic() - began[0] < 8
    assert running(token) == []
    assert grid.left() == []
    launches = by_test(run)
    assert set(launches) == {"true", "nap", "long"}, "what was not started has no record"
    assert launches["true"].ok
    assert {launches[name].reason for name in ("nap", "long")} == {"interrupted"}
    assert record_of(run).met is None


@pretended
def test_directories_are_kept_on_request(grid: GridRuns) -> None:
    _, run = grid.run([sh("echo x > mine", name="one")], keep=True)
    assert record_of(run).summary.failed == 0
    (kept,) = grid.libraries["work"].glob(".gridwright-workload-*/*/mine")
    assert kept.read_text() == "x\n"
    assert "workload-kept" in grid.findings()


def test_a_library_that_is_not_there_fails_the_run_and_names_the_node(here: GridRuns) -> None:
    here.libraries["util"].rmdir()
    status, run = here.run([["true"]])
    assert status == ExitStatus.ENVIRONMENT
    (problem,) = here.of("problem")
    assert str(here.libraries["util"]) in problem["where"]
    assert "cannot use a library" in problem["what"]
    assert record_of(run).launches == []


def test_a_launch_that_can_run_nowhere_is_refused(here: GridRuns) -> None:
    status, run = here.run([{"command": ["true"], "cores": 1000}])
    assert status == ExitStatus.INPUT
    assert here.of("problem")
    assert record_of(run).met is None
    assert here.left() == []


def test_a_killed_command_ends_its_jobs(here: GridRuns, token: str, tmp_path: Path) -> None:
    """The process that hands the jobs in sees its command go, and cancels them."""
    pid = os.fork()
    if not pid:
        try:
            here.run([long(token)])
        finally:
            os._exit(0)
    wait_for_process(token)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until_gone(token, 10)
    here.wait_until_clean(10)


def test_jobs_of_a_run_that_was_killed_whole_are_cancelled_by_the_next(here: GridRuns, token: str) -> None:
    pid = os.fork()
    if not pid:
        try:
            here.run([long(token)])
        finally:
            os._exit(0)
    wait_for_process(token)
    agents = psutil.Process(pid).children()
    os.kill(pid, signal.SIGSTOP)
    for agent in agents:
        agent.kill()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert running(token) != []
    status, run = here.run([["true"]])
    assert status == ExitStatus.DONE
    assert record_of(run).summary.failed == 0
    wait_until_gone(token, 10)
    here.wait_until_clean(10)
    assert "workload-stale-removed" in here.findings()


def wait_for_process(token: str) -> None:
    deadline = time.monotonic() + 30
    while not running(token):
        assert time.monotonic() < deadline, "the launch has not started"
        time.sleep(0.05)


DEAF = """\
from gridwright.workload.on_grid import process
from tests.support.pretend_grid import main
process.SILENT_S = 3.0
main()
"""


@pretended
def test_an_agent_that_hears_nothing_of_its_command_ends_its_jobs(
    grid: GridRuns, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """As on a head node whose connection broke without a word."""
    monkeypatch.setattr(worker_process, "BEAT_S", 0.1)
    grid.grid = replace(grid.grid, elsewhere=[sys.executable, "-P", "-c", DEAF])
    grid.on(
        lambda event: event["event"] == "launch-started",
        lambda: monkeypatch.setattr(worker_process, "BEAT_S", 600.0),
    )
    status, run = grid.run([long(token)])
    assert status == ExitStatus.INTERRUPTED
    assert {launch.reason for launch in record_of(run).launches} <= {"interrupted"}
    assert grid.left() == []
