"""The doctor on what grids die of, for real: each is found and named within ten seconds."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from tests.support.command import Command, wait_until
from tests.support.disks import loop_mount, run
from tests.support.doctor_lab import examined
from tests.support.hanging_mount import hanging_mount

pytestmark = pytest.mark.root

SPEC = """\
filesystems:
  one: {{type: local, path: "{one}"}}
  two: {{type: local, path: "{two}"}}
libraries:
  data: {{filesystem: one, path: .}}
  work: {{filesystem: two, path: .}}
"""


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
    assert f" {tmp_path}/none" in wrong["library-missing"][0]["remedy"]
