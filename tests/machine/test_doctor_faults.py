"""The doctor on what grids die of, for real: each is found and named within ten seconds."""

from __future__ import annotations

import contextlib
import os
import site
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.command import Command, Ended, wait_until
from tests.support.disks import loop_mount, run
from tests.support.hanging_mount import hanging_mount
from tests.support.lab import Lab, nodes_only, up

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

WITHIN_S = 10.0
BUSY_S = 30.0
"""Where more processes want to run than there are processors: then all takes as long as they let it."""
SPEC = """\
filesystems:
  one: {{type: local, path: "{one}"}}
  two: {{type: local, path: "{two}"}}
libraries:
  data: {{filesystem: one, path: .}}
  work: {{filesystem: two, path: .}}
"""


def examined(command: Command, spec: Path, *flags: str) -> tuple[Ended, dict[str, list[Any]]]:
    """What the doctor finds wrong, by name; it must not take longer than it may."""
    began = time.monotonic()
    ended = command("doctor", spec, *flags, "--json")
    took = time.monotonic() - began
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    assert took < (BUSY_S if busy else WITHIN_S), f"{took:.1f} s"
    wrong: dict[str, list[Any]] = {}
    for each in ended.json["checks"]:
        if not each["ok"]:
            wrong.setdefault(each["name"], []).append(each)
    return ended, wrong


def spec_of(tmp_path: Path, one: Path, two: Path) -> Path:
    spec = tmp_path / "grid.yaml"
    spec.write_text(SPEC.format(one=one, two=two))
    return spec


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    directory = tmp_path / "sound"
    directory.mkdir()
    return directory


def test_a_mount_that_hangs_is_named_and_the_other_library_is_still_looked_at(
    gridwright: Command, tmp_path: Path, sound: Path
) -> None:
    with hanging_mount(tmp_path / "hangs") as mount_point:
        ended, wrong = examined(gridwright, spec_of(tmp_path, mount_point, sound))
        assert ended.status == 1
        (hangs,) = wrong["library-hangs"]
        assert hangs["found"] == f"library data ({mount_point}): does not answer"
        assert hangs["level"] == "error" and hangs["nodes"]
        assert "library-missing" not in wrong and "mount-hangs" not in wrong
        others = [each for each in ended.json["checks"] if each["name"] == "library-read-only" and each["ok"]]
        assert any(f"library work ({sound})" in each["found"] for each in others)
    wait_until(
        lambda: None if _lookers() else True, seconds=20, what="the end of those that hung", last=_lookers
    )


def _lookers() -> list[str]:
    """Children that were left behind in the mount."""
    return [
        " ".join(process.info["cmdline"] or [])
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] == psutil.STATUS_DISK_SLEEP and "doctor" in (process.info["cmdline"] or [])
    ]


def test_a_mount_of_no_library_that_hangs_is_named(gridwright: Command, tmp_path: Path, sound: Path) -> None:
    with hanging_mount(tmp_path / "hangs") as mount_point:
        ended, wrong = examined(gridwright, spec_of(tmp_path, sound, tmp_path))
        assert ended.status == 0
        assert [each["found"] for each in wrong["mount-hangs"]] == [
            f"never-answers at {mount_point} does not answer"
        ]


def test_a_full_disk_is_named(gridwright: Command, tmp_path: Path, sound: Path) -> None:
    with loop_mount(tmp_path, mib=64) as disk:
        with (disk / "fill").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * (1 << 16)):
                pass
        ended, wrong = examined(gridwright, spec_of(tmp_path, disk, sound))
    assert ended.status == 1
    (short,) = wrong["library-short"]
    assert short["found"].startswith(f"library data ({disk}): ") and short["found"].endswith(" left")
    assert "100 % in use" in wrong["library-full"][0]["found"]


def test_a_disk_without_inodes_is_named(gridwright: Command, tmp_path: Path, sound: Path) -> None:
    with loop_mount(tmp_path, mib=16) as disk:
        with contextlib.suppress(OSError):
            for number in range(100_000):
                (disk / str(number)).touch()
        _, wrong = examined(gridwright, spec_of(tmp_path, disk, sound))
    assert "100 % of all inodes" in wrong["library-inodes"][0]["found"]


def test_a_library_that_became_read_only_is_named(gridwright: Command, tmp_path: Path, sound: Path) -> None:
    with loop_mount(tmp_path, mib=64) as disk:
        run("mount", "-o", "remount,ro", disk)
        ended, wrong = examined(gridwright, spec_of(tmp_path, disk, sound))
    assert ended.status == 1
    (found,) = wrong["library-read-only"]
    assert found["found"] == f"library data ({disk}): {disk} is mounted read-only"
    assert f"remount,rw {disk}" in found["remedy"]
    assert "library-refuses" not in wrong


def test_a_library_that_is_not_there_is_named_with_what_to_do(
    gridwright: Command, tmp_path: Path, sound: Path
) -> None:
    ended, wrong = examined(gridwright, spec_of(tmp_path, tmp_path / "none", sound))
    assert ended.status == 1
    assert f"mkdir -p {tmp_path}/none" in wrong["library-missing"][0]["remedy"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("doctor")
    with up(nodes_only(Command(place), place, "doctorlab", "10.92.0.0/24", count=3)) as lab:
        yield lab


def test_nodes_that_are_sound_are_said_to_be(lab: Lab) -> None:
    ended, wrong = examined(lab.command, lab.spec)
    assert ended.status == 0, wrong
    assert set(wrong) == {"data-on-one-node"}
    assert wrong["data-on-one-node"][0]["nodes"] == "compute[1-3]"


def test_some_nodes_only(lab: Lab) -> None:
    ended = lab.command("doctor", lab.spec, "--nodes", "compute[2-3]", "--only", "node-silent", "--json")
    assert [(each["name"], each["nodes"]) for each in ended.json["checks"]] == [
        ("node-silent", "compute[2-3]")
    ]
    strange = lab.command("doctor", lab.spec, "--nodes", "compute[3-4]")
    assert strange.status == 2
    assert "no node compute4" in strange.text and "compute[1-3]" in strange.text


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
    assert lab.exec("compute3", sys.executable, "-c", write, "/run/clock.pth", text).status == 0
    assert lab.exec("compute3", "mount", "--bind", "/run/clock.pth", str(started)).status == 0
    try:
        ended, wrong = examined(lab.command, lab.spec)
    finally:
        assert lab.exec("compute3", "umount", str(started)).status == 0
    assert ended.status == 1
    (clock,) = wrong["clock-wrong"]
    assert clock["nodes"] == "compute3"
    assert clock["found"].endswith("s behind")
