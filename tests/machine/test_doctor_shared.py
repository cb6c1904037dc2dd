"""The doctor on nodes that share a real file system: trials between them, and what breaks on one of them."""

from __future__ import annotations

import signal
import site
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.doctor.probes.node import PREFIX
from tests.support.command import Command, wait_until
from tests.support.doctor_lab import TRIALS, checks, examined, in_library, named
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

SPEC = """\
name: doctorshared
provider: lab
lab: {network: 10.92.1.0/24, bandwidth: 20 MB/s}
nodes:
  compute: {count: 3, cores: 2, memory: 1 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 1}
libraries: {data: {}}
scheduler: {type: ssh}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("shared")
    spec = place / "shared.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, "doctorshared")) as lab:
        yield lab


def test_a_doctor_that_is_killed_leaves_nothing(lab: Lab) -> None:
    with lab.command.start("doctor", lab.spec, "--json") as running:
        wait_until(
            lambda: True if any(PREFIX in path for path in in_library(lab)) or _over(running) else None,
            seconds=60,
            what="a directory of trials",
            last=lambda: in_library(lab),
        )
        running.signal(signal.SIGKILL)
        time.sleep(0.1)
    wait_until(
        lambda: True if in_library(lab) == [] else None,
        seconds=30,
        what="an empty library",
        last=lambda: in_library(lab),
    )


def _over(running: Any) -> bool:
    """Whether the trials were too quick to be caught at work: what they left counts all the same."""
    return running.process.poll() is not None


def test_a_node_whose_mount_is_gone_is_named_and_takes_no_part_in_trials(lab: Lab) -> None:
    assert lab.run("compute2", "umount", "-l", "/mnt/grid").status == 0
    try:
        status, found = checks(lab)
    finally:
        assert lab.fault("power-off", "compute2").status == 0
        assert lab.fault("power-on", "compute2").status == 0
    assert status == 1
    assert named(found, "library-missing", ok=False) == {"library-missing": "compute2"}
    assert named(found, *TRIALS, ok=True) == dict.fromkeys(TRIALS, "compute[1,3]")


def test_a_node_with_another_file_system_in_the_place_is_named(lab: Lab) -> None:
    assert lab.run("compute3", "mount", "-t", "tmpfs", "tmpfs", "/mnt/grid").status == 0
    assert lab.run("compute3", "mkdir", "/mnt/grid/data").status == 0
    try:
        status, found = checks(lab)
    finally:
        assert lab.run("compute3", "umount", "/mnt/grid").status == 0
    assert status == 1
    names = ("library-elsewhere", "library-in-memory", "not-seen-by-others")
    assert named(found, *names, ok=False) == {
        "library-elsewhere": "compute3",
        "library-in-memory": "compute3",
        "not-seen-by-others": "compute[2-3]",
    }
    (unseen,) = [each for each in found if each["name"] == "not-seen-by-others" and not each["ok"]]
    assert "compute3 has not seen" in unseen["found"]
    assert in_library(lab) == []


def test_servers_that_are_gone_are_named_by_the_head_node_and_hang_nobody(lab: Lab, tmp_path: Path) -> None:
    assert lab.run("storage1", "pkill", "-STOP", "mfsmaster").status == 0
    began = time.monotonic()
    try:
        status, found = checks(lab)
    finally:
        assert lab.run("storage1", "pkill", "-CONT", "mfsmaster").status == 0
    assert time.monotonic() - began < 60
    assert status == 1
    assert named(found, "master-silent", ok=False) == {"master-silent": ""}
    assert named(found, "library-hangs", ok=False) == {}, "it follows from that"


def test_a_dead_node_is_named(lab: Lab) -> None:
    assert lab.fault("power-off", "compute2").status == 0
    try:
        ended, wrong = examined(lab.command, lab.spec)
    finally:
        assert lab.fault("power-on", "compute2").status == 0
    assert ended.status == 1
    assert [each["nodes"] for each in wrong["node-silent"]] == ["compute2"]


def test_a_clock_five_minutes_off_is_named(lab: Lab) -> None:
    """Nodes of a lab share the kernel's clock: on one of them Python is made to read it wrong."""
    # A line of a .pth file that begins with import is run at every start of Python (site).
    started = next(Path(site.getsitepackages()[0]).glob("*.pth"))
    text = f"{started.read_text()}\nimport time; time.time = lambda right=time.time: right() - 300\n"
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    assert lab.run("compute3", sys.executable, "-c", write, "/run/clock.pth", text).status == 0
    assert lab.run("compute3", "mount", "--bind", "/run/clock.pth", str(started)).status == 0
    try:
        ended, wrong = examined(lab.command, lab.spec)
    finally:
        assert lab.run("compute3", "umount", str(started)).status == 0
    assert ended.status == 1
    (clock,) = wrong["clock-wrong"]
    assert clock["nodes"] == "compute3"
    assert clock["found"].endswith("s behind")
