"""Local file systems on real loop devices, as they are told to be: well, full, read-only, and silent."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from gridwright.commands import run_here
from gridwright.filesystems.block_devices import read_counts_below
from gridwright.filesystems.counters import traffic
from gridwright.filesystems.health import Condition
from gridwright.filesystems.local.health import health, what_is_below
from gridwright.units import Bytes
from tests.support.disks import loop_mount, run
from tests.support.hanging_mount import hanging_mount

pytestmark = pytest.mark.root

MIB = Bytes(2**20)


def test_a_mount_is_followed_to_its_device_and_its_space_told(tmp_path: Path) -> None:
    with loop_mount(tmp_path, mib=64) as disk:
        below = what_is_below(str(disk / "lost+found"))
        assert below is not None
        assert (below.mount.point, below.mount.type) == (str(disk), "ext4")
        assert [each.name for each in below.disks] == [Path(below.mount.source).name]
        assert below.disks[0].size_bytes == 64 * MIB
        found = health(run_here, str(disk))
        assert (found.condition, list(found.findings)) == (Condition.HEALTHY, [])


def test_a_full_and_a_read_only_file_system_are_told(tmp_path: Path) -> None:
    with loop_mount(tmp_path, mib=64) as disk:
        room = os.statvfs(disk)
        run("fallocate", "-l", str(room.f_bavail * room.f_frsize * 95 // 100), disk / "big")
        found = health(run_here, str(disk))
        assert (found.condition, [each.name for each in found.findings]) == (
            Condition.DEGRADED,
            ["filesystem-full"],
        )
        run("mount", "-o", "remount,ro", disk)
        found = health(run_here, str(disk))
        assert found.condition is Condition.BROKEN
        assert [each.name for each in found.findings] == ["filesystem-read-only", "filesystem-full"]


def test_what_was_written_is_counted_on_its_device(tmp_path: Path) -> None:
    with loop_mount(tmp_path, mib=64) as disk:
        below = what_is_below(str(disk))
        assert below is not None
        read = partial(read_counts_below, str(disk / "library"))
        before = read()
        with (disk / "file").open("wb") as file:
            file.write(bytes(16 * MIB))
        run("sync", "-f", disk / "file")
        time.sleep(0.05)
        (found,) = traffic(before, read())
        assert found.target == below.disks[0].name
        assert 16 * MIB <= found.written_bytes < 24 * MIB
        assert found.seconds < 60


def test_a_mount_that_never_answers_is_a_finding_within_ten_seconds(tmp_path: Path) -> None:
    with hanging_mount(tmp_path / "hangs") as mount:
        started = time.monotonic()
        found = health(run_here, str(mount))
        assert time.monotonic() - started < 10
        assert (found.condition, [each.name for each in found.findings]) == (
            Condition.SILENT,
            ["filesystem-silent"],
        )
