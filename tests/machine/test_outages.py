"""What runs for long while a machine of a lab is off: it recovers, or ends in time and names that machine."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, Ended, Running, wait_until
from tests.support.lab import Lab, up
from tests.support.workload import sh

pytestmark = pytest.mark.root

SPEC = """\
name: outages
provider: lab
lab: {network: 10.87.0.0/24, bandwidth: 20 MB/s}
nodes:
  compute: {count: 2, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 1, copies: 1}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""
NODES = ["compute1", "compute2"]
OFF = "node controller of lab outages is powered off"


RESTARTED = "node controller was restarted meanwhile"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("outages")
    spec = place / "outages.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, "outages")) as lab:
        yield lab


def states(lab: Lab) -> list[str]:
    return lab.run("controller", "sinfo", "-h", "-N", "-o", "%T").out.split()


def all_idle(lab: Lab) -> None:
    wait_until(
        lambda: True if states(lab) == ["idle"] * len(NODES) else None,
        seconds=60,
        what="idle nodes",
        last=lambda: states(lab),
    )


def submit(lab: Lab, *command: str) -> str:
    ended = lab.command("submit", "--grid", lab.spec, "--directory", "/", "--", *command)
    assert ended.status == 0, ended.err
    return ended.out.strip()


def findings(ended: Ended, name: str) -> list[str]:
    return [each["text"] for each in ended.json["findings"] if each["name"] == name]


def test_workload_wait_and_logs_go_on_when_the_controller_was_off_and_is_on_again(
    lab: Lab, tmp_path: Path
) -> None:
    """The PID and the namespaces of the controller are others afterwards."""
    all_idle(lab)
    matrix = tmp_path / "matrix.json"
    streams = [[sh("sleep 3", name=f"nap{number}") for number in range(4)]]
    matrix.write_text(json.dumps({"name": "naps", "streams": streams}))
    job = submit(lab, "sh", "-c", "sleep 25; echo over")
    with (
        lab.command.start("wait", "--grid", lab.spec, job, "--json") as wait,
        lab.command.start("logs", "--grid", lab.spec, "--follow", job) as logs,
        lab.command.start("workload", lab.spec, "--scale", "tiny", "--matrix", matrix, "--json") as workload,
    ):
        workload.says("stream 1: nap0 on", 60)
        assert lab.fault("power-off", "controller").status == 0
        try:
            wait.says(OFF, 30)
            workload.says(OFF, 60)
            jobs = lab.command("jobs", "--grid", lab.spec)
            assert jobs.status == 3
            assert OFF in jobs.text
            assert "gridwright lab power-on controller" in jobs.text
        finally:
            on = lab.fault("power-on", "controller")
        assert on.status == 0, on.err
        assert states(lab).count("unknown") == 0, "nodes are known again when the command returns"
        waited, logged, worked = wait.end(120), logs.end(60), workload.end(120)
    assert waited.status == 0, waited.err
    assert waited.json["jobs"][0]["state"] == "completed"
    assert "answers again" in waited.text
    assert (logged.status, logged.out) == (0, "over\n"), logged.err
    assert worked.status == 0, worked.err
    launches = worked.json["launches"]
    assert [launch["ok"] for launch in launches] == [True] * 4
    assert [launch["restarts"] for launch in launches] == [0] * 4
    silent, back = findings(worked, "workload-scheduler-silent")
    assert "its machine controller is away" in silent
    assert "answers again" in back


def iotest(lab: Lab, *flags: str) -> Running:
    return lab.command.start("iotest", lab.spec, "--streams", "1", "--phases", "write", *flags, "--json")


def in_data(lab: Lab) -> list[str]:
    return lab.run("compute1", "find", "/mnt/grid/data", "-mindepth", "1", "-maxdepth", "1").out.split()


def nothing_is_left(lab: Lab) -> None:
    wait_until(
        lambda: True if not in_data(lab) and lab.run("controller", "squeue", "-h").out == "" else None,
        seconds=90,
        what="an empty library and an empty queue",
        last=lambda: (in_data(lab), lab.run("controller", "squeue").out),
    )


def written(lab: Lab) -> None:
    """Wait until every node has written some megabytes."""

    def sizes() -> list[int]:
        found = lab.run("compute1", "find", "/mnt/grid/data", "-name", "stream-*.dat", "-size", "+4M")
        return [len(found.out.split())]

    wait_until(
        lambda: True if sizes() == [len(NODES)] else None, seconds=30, what="files of all nodes", last=sizes
    )


def names(document: Any) -> list[str]:
    told = [each["name"] for each in document["findings"]]
    return [name for name in told if name in ("outage", "node-lost", "node-failed", "files-left")]


def test_a_controller_that_is_off_is_named_before_the_nodes_that_a_test_lost_by_it(lab: Lab) -> None:
    all_idle(lab)
    with iotest(lab, "--seconds", "60s") as running:
        running.says("data: write", 60)
        written(lab)
        assert lab.fault("power-off", "controller").status == 0
        try:
            ended = running.end(120)
        finally:
            assert lab.fault("power-on", "controller").status == 0
    assert ended.status == 3, ended.err
    assert names(ended.json) == ["outage", "node-lost", "node-lost", "files-left"], ended.err
    (outage,) = findings(ended, "outage")
    assert outage == (
        "node controller is powered off; compute[1-2], reached through it, are lost to this test"
    )
    for node, text in zip(NODES, findings(ended, "node-lost"), strict=True):
        assert text.startswith(f"node {node} was lost: node controller is powered off, and it is reached")
    (left,) = findings(ended, "files-left")
    assert re.search(r"/mnt/grid/data/\.gridwright-iotest-\w+ of compute1 \(up to [0-9.]+ [KMG]iB\)", left)
    assert "no node is left to test it: node controller is powered off" in ended.text
    # A Slurm that had not saved yet that jobs began kills them when it is back.
    all_idle(lab)
    with iotest(lab, "--size", "1MiB") as running:
        again = running.end(120)
    assert again.status == 0, again.err
    nothing_is_left(lab)


@pytest.mark.thorough
def test_a_controller_that_is_on_again_at_once_is_named_too(lab: Lab) -> None:
    all_idle(lab)
    with iotest(lab, "--seconds", "60s") as running:
        running.says("data: write", 60)
        assert lab.fault("power-off", "controller").status == 0
        assert lab.fault("power-on", "controller").status == 0
        ended = running.end(120)
    assert ended.status == 3, ended.err
    assert names(ended.json)[0] == "outage"
    assert all(RESTARTED in text for text in findings(ended, "node-lost"))
    assert len(findings(ended, "node-lost")) == len(NODES)


@pytest.mark.thorough
def test_a_storage_node_that_is_off_is_named_while_the_test_waits_for_it(lab: Lab) -> None:
    all_idle(lab)
    with iotest(lab, "--seconds", "60s", "--engine", "direct") as running:
        running.says("data: write", 60)
        assert lab.fault("power-off", "storage1").status == 0
        try:
            running.says("node storage1 is powered off; it serves file system shared", 60)
        finally:
            assert lab.fault("power-on", "storage1").status == 0
        running.signal(signal.SIGINT)
        ended = running.end(120)
    assert names(ended.json)[:1] == ["outage"], "and nothing else is blamed first"
    # A worker that hung on the file system is killed, and cannot remove its files: they are named, then.
    all_idle(lab)
    assert not in_data(lab) or findings(ended, "files-left"), ended.err
    with iotest(lab, "--size", "1MiB") as running:
        again = running.end(120)
    assert again.status == 0, again.err
    nothing_is_left(lab)


def test_a_healed_node_takes_jobs_when_the_command_returns(lab: Lab) -> None:
    all_idle(lab)
    assert lab.fault("partition", "compute1").status == 0
    try:
        wait_until(
            lambda: True if any("down" in state for state in states(lab)) else None,
            seconds=40,
            what="a node that is down",
            last=lambda: states(lab),
        )
    finally:
        healed = lab.fault("heal", "compute1")
    assert (healed.status, healed.out) == (0, "compute1 is connected\n"), healed.err
    assert states(lab) == ["idle", "idle"]
