"""Nodes of a lab: each a machine of its own, and none a trace on this one."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.lab.namespaces import identify
from gridwright.providers.lab.record import read
from gridwright.providers.lab.services import node_of
from tests.support.command import Command, wait_until
from tests.support.disks import AS_NOBODY
from tests.support.lab import Lab, machine, nodes_only, traces, up

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two compute nodes."""
    directory = tmp_path_factory.mktemp("lab")
    # The first one may have to make the image.
    command = Command(directory)
    made = nodes_only(command, directory, "labtest", "10.78.9.0/24")
    assert command("up", made.spec, seconds=280).status == 0
    with up(made):
        yield made


def test_power_off_kills_everything_on_the_node_and_power_on_boots_it_with_its_disk(lab: Lab) -> None:
    lab.run("compute2", "sh", "-c", "echo kept > /var/kept; echo gone > /run/gone; echo gone > /tmp/gone")
    record = read(lab.name)
    assert record is not None
    node = node_of(record, "compute2")
    inside = subprocess.Popen(node.argv(["sh", "-c", "sleep 1234 & setsid sleep 1234 & wait"]))
    wait_until(
        lambda: True if _sleeping(node.root) == 2 else None, seconds=10, what="two sleeps", last=node.check
    )
    namespace = Path(f"/proc/{node.process.pid}/ns/pid").readlink()
    assert lab.fault("power-off", "compute2").status == 0
    assert inside.wait(10) != 0
    assert _processes_in(namespace) == []
    standing = {each["name"]: each["state"] for each in lab.status().json["nodes"]}
    assert standing == {"controller": "up", "compute1": "up", "compute2": "powered-off"}
    assert lab.status().status == 3
    refused = lab.exec("compute2", "true")
    assert refused.status == 3
    assert "powered off" in refused.text
    assert lab.run("compute1", "ping", "-c1", "-W1", "compute2").status == 1

    assert lab.fault("power-on", "compute2").status == 0
    found = lab.run("compute2", "sh", "-c", "cat /var/kept; ls /run/gone /tmp/gone")
    assert found.out == "kept\n"
    # Soon: others know it by the same hardware address, and ask once more where they have just failed to.
    assert lab.run("compute1", "ping", "-c4", "-W1", "compute2").status == 0
    assert lab.status().status == 0


def _sleeping(root: Path) -> int:
    found = 0
    for path in (root / "proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes() == b"sleep\x001234\x00"
        except OSError:
            continue
    return found


def _processes_in(namespace: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "ns/pid").readlink() == namespace and identify(int(path.name)).alive:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def test_a_partitioned_node_runs_on_unheard_until_it_is_healed(lab: Lab) -> None:
    assert lab.fault("partition", "compute1").out == "compute1 is cut off\n"
    assert lab.fault("partition", "compute1").out == "compute1 was cut off already\n"
    assert lab.run("compute1", "true").status == 0
    assert lab.run("compute1", "ping", "-c1", "-W1", "controller").status == 1
    assert lab.run("compute2", "ping", "-c1", "-W1", "compute1").status == 1
    assert lab.run("compute2", "ping", "-c1", "-W1", "controller").status == 0
    assert lab.fault("partition", "compute1", "--heal").out == "compute1 is connected\n"
    assert lab.run("compute1", "ping", "-c4", "-W1", "controller").status == 0


def test_up_again_mends_what_is_missing_and_refuses_another_spec(lab: Lab) -> None:
    assert lab.up().out == f"lab {lab.name} was up already: 3 nodes\n"
    lab.fault("power-off", "compute1")
    lab.fault("partition", "compute2")
    lab.run("controller", "pkill", "-9", "sshd")
    mended = lab.up()
    assert mended.status == 0
    assert "compute1 was powered off" in mended.out
    assert "compute2 was cut off" in mended.out
    assert "sshd did not serve on controller" in mended.out
    assert lab.status().status == 0

    other = lab.spec.with_name("other.yaml")
    other.write_text(lab.spec.read_text().replace("count: 2", "count: 3"))
    refused = lab.command("up", other)
    assert refused.status == 2
    assert "nodes.compute.count is 2 in the lab and 3 in the spec" in refused.text
    assert "gridwright down" in refused.text


def test_a_node_without_a_lab_is_said_so(gridwright: Command, tmp_path: Path) -> None:
    gone = nodes_only(gridwright, tmp_path, "labnone", "10.78.10.0/24")
    for ended in (gone.exec("compute1", "true"), gone.fault("power-off", "compute1")):
        assert ended.status == 3
        assert "lab labnone is not up" in ended.text
    down = gone.down()
    assert (down.status, down.out) == (0, "lab labnone was not up\n")
    assert gone.status().json["state"] == "not-up"
    assert traces(gone) == []


@pytest.mark.alone
def test_nothing_of_a_lab_is_seen_here_and_nothing_is_left(gridwright: Command, tmp_path: Path) -> None:
    before = machine()
    made = nodes_only(gridwright, tmp_path, "labtrace", "10.78.11.0/24")
    with up(made):
        assert machine() == before
        assert traces(made) != []
        # Left running by a user: they end with the lab.
        assert made.run("compute1", "sh", "-c", "setsid sleep 999 >/dev/null 2>&1 &").status == 0
    assert machine() == before
    assert traces(made) == []
    assert _all_command_lines().count(b"sleep\x00999\x00") == 0
    assert made.down().out == "lab labtrace was not up\n"


def _all_command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.alone
@pytest.mark.parametrize(
    ("number", "steps"),
    [
        (signal.SIGKILL, 4),
        (signal.SIGTERM, 2),
        pytest.param(signal.SIGKILL, 8, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, 4, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_an_up_that_was_stopped_leaves_nothing_that_down_or_up_do_not_remove(
    gridwright: Command, tmp_path: Path, number: signal.Signals, steps: int
) -> None:
    before = machine()
    made = nodes_only(gridwright, tmp_path, "labstop", "10.78.12.0/24", count=4)
    caught = set()
    try:
        for step in range(steps):
            caught.add(_stopped(made, number, after=0.04 + step * 0.06))
            if step % 2:
                assert made.up().status == 0
            assert made.down().status == 0
            assert traces(made) == []
    finally:
        made.down()
    assert "starting" in caught
    assert machine() == before


def _stopped(lab: Lab, number: signal.Signals, *, after: float) -> str:
    """Stop an `up` some time after it began to make the lab; how far its record says that it was."""
    with lab.command.start("up", lab.spec) as running:
        wait_until(
            lambda: True if lab.record.exists() else None, seconds=30, what="a record", last=lab.status
        )
        time.sleep(after)
        phase = _phase(lab)
        running.signal(number)
        ended = running.end()
    if number != signal.SIGKILL and ended.status != 0:
        assert ended.status == 130, ended
        assert traces(lab) == []
    return phase


def _phase(lab: Lab) -> str:
    return str(json.loads(lab.record.read_text())["phase"])


def test_two_ups_at_the_same_time_make_one_lab(gridwright: Command, tmp_path: Path) -> None:
    made = nodes_only(gridwright, tmp_path, "labtwice", "10.78.13.0/24", count=1)
    try:
        with gridwright.start("up", made.spec) as one, gridwright.start("up", made.spec) as other:
            ends = sorted([one.end(), other.end()], key=lambda ended: ended.out)
        assert [ended.status for ended in ends] == [0, 0]
        assert "is up: 2 nodes" in ends[0].out
        assert "was up already" in ends[1].out
    finally:
        assert made.down().out == "lab labtwice is down: nothing is left\n"
    assert traces(made) == []


def test_what_is_in_use_is_said_before_anything_is_changed(gridwright: Command, tmp_path: Path) -> None:
    address = subprocess.run(["ip", "-o", "-4", "a"], capture_output=True, text=True, check=True).stdout
    ours = next(line.split()[3].split("/")[0] for line in address.splitlines() if " lo " not in line)
    network = ".".join([*ours.split(".")[:3], "0"]) + "/24"
    made = nodes_only(gridwright, tmp_path, "labinuse", network)
    ended = made.up()
    assert ended.status in (2, 3)
    assert f"{network}" in ended.text
    assert traces(made) == []


def test_not_root_is_said_before_anything_is_changed(gridwright: Command) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        made = nodes_only(gridwright, Path(open_to_all), "labnobody", "10.78.14.0/24")
        ended = gridwright("up", made.spec, prefix=AS_NOBODY)
    assert ended.status == 3
    assert "only root can make a lab" in ended.text
    assert "sudo" in ended.text
    assert traces(made) == []
