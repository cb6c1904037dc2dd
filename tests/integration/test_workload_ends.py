"""Ends of the workload: interrupted or killed, no process and no directory is left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.runs.directory import load_run
from gridwright.workload.data_set import HOME
from gridwright.workload.private_directories import MARKER, PREFIX
from tests.support.command import Command, Running, wait_until
from tests.support.workload import Grid, sh, wait_for, wait_until_gone
from tests.support.workload import running as processes

SOON_S = 6.0
"""An order to stop is heeded within two seconds, with the report; the rest is for a busy machine."""
_ALL_S = 5.0
"""No process may be older than this once what watched it is gone."""


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Grid:
    return Grid(tmp_path, gridwright)


@pytest.fixture
def token(tmp_path: Path) -> str:
    """Names the processes of a test."""
    return f"stays-{tmp_path.name}"


def stays(token: str, begun: Path) -> dict[str, Any]:
    """A launch with a grandchild in a session of its own, none of which heeds SIGTERM."""
    script = (
        f"trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP INT; echo x > table; echo begun > {begun}; "
        f"sleep 120; true' {token} & wait; sleep 120; true"
    )
    return {"command": ["sh", "-c", script, token], "name": "stays"}


def agent_of(running: Running) -> psutil.Process:
    return running.worker()


def guards_of(running: Running) -> list[psutil.Process]:
    return agent_of(running).children()


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_run_can_be_stopped(grid: Grid, tmp_path: Path, token: str, number: signal.Signals) -> None:
    begun = tmp_path / "begun"
    with grid.start([["true"], stays(token, begun), ["true"]], [sh("sleep 120", name="nap")]) as running:
        wait_for(begun)
        began = time.monotonic()
        running.signal(number)
        ended = running.end()
        took = time.monotonic() - began
    assert ended.status == 130, ended.err
    assert took < SOON_S, f"it took {took:.2f} s to stop"
    assert processes(token) == []
    assert grid.left() == []
    document = ended.json
    assert document["status"] == "interrupted"
    assert document["met"] is None
    launches = {launch["test"]: launch for launch in document["launches"]}
    assert set(launches) == {"true", "stays", "nap"}
    assert launches["true"]["ok"]
    assert {launches[name]["reason"] for name in ("stays", "nap")} == {"interrupted"}
    assert document["summary"]["real_s"] == launches["true"]["real_s"], "only whole launches are summed up"
    run = load_run(Path(document["run"]))
    assert run.run.status == "interrupted"
    assert run.workload is not None
    assert len(run.workload.launches) == 3
    assert "interrupted" in (run.path / "report.html").read_text()


@pytest.mark.alone
def test_the_data_is_not_half_made_after_an_interrupt(grid: Grid, tmp_path: Path) -> None:
    arguments = grid.arguments([{"test": "sort"}], flags=["--scale", "small"])
    home = grid.library("data") / HOME
    with grid.command.start(*arguments) as running:
        wait_until(
            lambda: next(home.glob("*/copy-0/*.partial"), None),
            seconds=60,
            what="a table that is being made",
            last=lambda: [*home.rglob("*")],
        )
        below = agent_of(running).children(recursive=True)
        began = time.monotonic()
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130, ended.err
    assert time.monotonic() - began < SOON_S
    assert ended.json["status"] == "interrupted"
    assert ended.json["launches"] == []
    assert [*home.glob("*/copy-0/*")] == []
    assert psutil.wait_procs(below, timeout=_ALL_S)[1] == []


def launches_of(grid: Grid) -> list[tuple[str, bool]]:
    workload = load_run(grid.command.only_run()).workload
    return [(launch.test, launch.ok) for launch in workload.launches] if workload else []


def test_a_killed_command_takes_all_processes_along(grid: Grid, tmp_path: Path, token: str) -> None:
    begun = tmp_path / "begun"
    with grid.start([["true"], stays(token, begun)]) as running:
        wait_for(begun)
        agent = agent_of(running)
        # The command may hear of the first launch after the second has begun.
        wait_until(
            lambda: launches_of(grid) or None,
            seconds=30,
            what="the first launch",
            last=lambda: launches_of(grid),
        )
        running.signal(signal.SIGKILL)
        running.process.wait(10)
        wait_until_gone(token, _ALL_S)
        assert psutil.wait_procs([agent], timeout=_ALL_S)[1] == []
    grid.wait_until_clean()
    assert load_run(grid.command.only_run()).run.status == "interrupted"
    assert launches_of(grid) == [("true", True)]


def test_a_killed_agent_takes_its_launches_along_and_the_next_run_tidies_up(
    grid: Grid, tmp_path: Path, token: str
) -> None:
    begun = tmp_path / "begun"
    with grid.start([["true"], stays(token, begun)]) as running:
        wait_for(begun)
        guards = guards_of(running)
        agent_of(running).kill()
        ended = running.end()
        wait_until_gone(token, _ALL_S)
        assert psutil.wait_procs(guards, timeout=_ALL_S)[1] == []
    assert ended.status == 3, ended.err
    assert "the workload on this node was lost: its worker was killed by SIGKILL" in ended.text
    assert ended.json["status"] == "failed"
    assert [launch["test"] for launch in ended.json["launches"]] == ["true"]
    left = grid.left()
    assert len(left) == 2, "the directories of the run in work and util"
    assert all([path.name for path in directory.iterdir()] == [MARKER] for directory in left)
    again = grid.run([["true"]])
    assert again.status == 0, again.err
    assert grid.left() == []
    (finding,) = again.findings
    assert finding["name"] == "workload-stale-removed"
    assert all(str(directory) in finding["text"] for directory in left)


def test_a_killed_guard_takes_its_launch_along_and_the_rest_goes_on(
    grid: Grid, tmp_path: Path, token: str
) -> None:
    begun, end = tmp_path / "begun", tmp_path / "end"
    beside = sh(f"until test -e {end}; do sleep 0.05; done", name="beside")
    with grid.start([stays(token, begun), ["true"]], [beside]) as running:
        wait_for(begun)
        watched = {process.pid for process in processes(token)}
        (guard,) = [
            guard
            for guard in guards_of(running)
            if watched & {process.pid for process in guard.children(recursive=True)}
        ]
        guard.kill()
        wait_until_gone(token, _ALL_S)
        assert running.process.poll() is None, "the other launch runs still"
        end.touch()
        ended = running.end()
    assert ended.status == 1, ended.err
    lost, after, other = ended.json["launches"]
    assert lost["reason"] == "the process that watched it was killed"
    assert after["ok"]
    assert other["ok"]
    assert grid.left() == []


def test_what_all_of_them_left_is_removed_by_the_next_run(grid: Grid, tmp_path: Path, token: str) -> None:
    begun = tmp_path / "begun"
    with grid.start([stays(token, begun)]) as running:
        wait_for(begun)
        agent = agent_of(running)
        everyone = [agent, *agent.children(recursive=True)]
        running.signal(signal.SIGSTOP)
        for process in everyone:
            process.kill()
        running.signal(signal.SIGKILL)
        running.process.wait(10)
    psutil.wait_procs(everyone, timeout=_ALL_S)
    assert [*grid.library("work").glob(f"{PREFIX}*/*-stays/table")]
    assert grid.run([["true"]]).status == 0
    assert grid.left() == []


def test_two_runs_of_the_same_libraries_leave_each_other_alone(
    grid: Grid, tmp_path: Path, token: str
) -> None:
    begun, end = tmp_path / "begun", tmp_path / "end"
    script = (
        f"echo mine > table; echo begun > {begun}; until test -e {end}; do sleep 0.05; done; test -e table"
    )
    with grid.start([sh(script, name="first")]) as running:
        wait_for(begun)
        other = grid.run([sh("echo other > table", name="second")])
        assert other.status == 0, other.err
        assert other.findings == []
        end.touch()
        ended = running.end()
    assert ended.status == 0, ended.json
    assert grid.left() == []


def test_nothing_that_is_not_ours_is_touched(grid: Grid, tmp_path: Path) -> None:
    work = grid.library("work")
    precious = tmp_path / "precious"
    precious.mkdir()
    dead = {"process": {"host": "node-17", "boot_id": "x", "pid": 1, "started": 1.0}, "kept": False}
    (precious / MARKER).write_text(json.dumps(dead))
    (work / f"{PREFIX}link").symlink_to(precious)
    (work / f"{PREFIX}file").write_text("a file")
    (work / "sales.sas7bdat").write_text("data")
    for name, marker in (("other-host", json.dumps(dead)), ("odd", "[]"), ("no-json", "{")):
        (work / f"{PREFIX}{name}").mkdir()
        (work / f"{PREFIX}{name}" / MARKER).write_text(marker)
    (work / f"{PREFIX}being-made").mkdir()
    before = sorted(str(path) for path in work.rglob("*"))
    assert grid.run([["true"]]).status == 0
    assert sorted(str(path) for path in work.rglob("*")) == before
    os.utime(work / f"{PREFIX}being-made", (1.0, 1.0))
    assert grid.run([["true"]]).status == 0
    assert not (work / f"{PREFIX}being-made").exists(), "it was never finished"


def test_a_second_interrupt_ends_the_command_at_once(grid: Grid, tmp_path: Path, token: str) -> None:
    begun = tmp_path / "begun"
    with grid.start([stays(token, begun)]) as running:
        wait_for(begun)
        agent = agent_of(running)
        agent.suspend()
        running.signal(signal.SIGINT)
        time.sleep(0.3)
        running.signal(signal.SIGINT)
        ended = running.end(30)
        agent.resume()
        assert ended.status == 130, ended.err
        wait_until_gone(token, 2 * _ALL_S)
    grid.wait_until_clean()
