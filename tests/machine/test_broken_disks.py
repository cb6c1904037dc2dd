"""File systems that refuse, fill up, break or flatter: named, exit 3 where they fail, nothing left behind."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems.mounts import describe_mount
from gridwright.iotest.drive import drive
from gridwright.iotest.engine import PhasePlan, StreamPlan
from gridwright.iotest.options import IotestOptions
from tests.support.command import Command, Ended, wait_until
from tests.support.disks import AS_NOBODY, loop_mount, other_mount, run, visible
from tests.support.skips import needs
from tests.support.workload import Grid

pytestmark = pytest.mark.root
MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A 64 MiB ext4 of the test's own."""
    with loop_mount(tmp_path, mib=64) as mount_point:
        yield mount_point


def refused(ended: Ended, library: Path, words: str) -> None:
    """It failed as it should: exit 3, a message with library, path and cause."""
    assert ended.status == 3, ended.err
    assert "library directory: " in ended.text
    assert str(library) in ended.text
    assert words in ended.text


def fill(directory: Path) -> None:
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={directory}/someone-else", "bs=64K"], capture_output=True, check=False
    )


def test_the_whole_way_on_a_small_disk(gridwright: Command, disk: Path) -> None:
    ended = gridwright("iotest", "--directory", disk, "--seconds", "0.5", "--verify", "--json")
    assert ended.status == 0, ended.err
    (library,) = ended.json["libraries"]
    assert library["device"]["mount_point"] == str(disk)
    assert library["device"]["filesystem_type"] == "ext4"
    assert library["device"]["device"].startswith("loop")
    assert all(phase["used"]["file_bytes"] < 64 * MIB for phase in library["phases"])
    assert visible(disk) == []


def test_a_size_that_does_not_fit_is_refused_before_it_writes(gridwright: Command, disk: Path) -> None:
    ended = gridwright("iotest", "--directory", disk, "--size", "1GiB", "--json")
    refused(ended, disk, "no space is left for the test (ENOSPC)")
    assert ended.json["libraries"][0]["phases"] == []
    assert visible(disk) == []


def test_a_library_that_fails_does_not_keep_the_others_from_being_tested(
    gridwright: Command, disk: Path, tmp_path: Path
) -> None:
    roots = {"data": disk, "work": tmp_path / "disk"}
    for name, root in roots.items():
        (root / name).mkdir(parents=True)
    ended = gridwright(
        "iotest", Grid.write_spec(tmp_path, roots), "--size", "80MiB", "--streams", "1", "--json"
    )
    assert ended.status == 3, ended.err
    assert "library data" in ended.err
    assert "no space is left for the test (ENOSPC)" in ended.err
    assert ended.json["status"] == "failed"
    assert [lib["library"] for lib in ended.json["libraries"] if lib["phases"]] == ["work"]


@pytest.mark.parametrize("engine", ["buffered", "direct"])
def test_the_engine_says_where_the_space_ran_out(disk: Path, engine: Any) -> None:
    """What the command avoids by planning: two streams that want more than there is."""
    options = IotestOptions(engine=engine, size_bytes=64 * MIB, streams=2)
    plan = PhasePlan(
        tuple(StreamPlan("write", str(disk / f"s{number}"), number, 64 * MIB) for number in range(2)),
        seed=1,
        bytes_per_stream=64 * MIB,
        seconds=None,
    )
    driven = drive(plan, options, device=None, live=lambda _: None, stop=threading.Event())
    failure = driven.outcome.failure
    assert failure is not None
    assert failure.errno == 28
    assert failure.op in {"write", "fallocate", "fsync"}
    assert failure.path.startswith(str(disk))
    assert driven.outcome.seconds_last is None or driven.outcome.seconds_last > 0


@pytest.mark.parametrize("engine", ["buffered", "direct"])
def test_a_disk_that_someone_else_fills_meanwhile(gridwright: Command, disk: Path, engine: str) -> None:
    flags = ("--phases", "write,mixed", "--seconds", "2", "--engine", engine, "--json")
    with gridwright.start("iotest", "--directory", disk, *flags) as running:
        running.says("directory: write (")
        wait_until(
            lambda: next(disk.glob(".gridwright-iotest-*/stream-0.dat"), None),
            seconds=20,
            what="the first stream's file",
            last=lambda: visible(disk),
        )
        fill(disk)
        ended = running.end()
    refused(ended, disk, "no space is left on the file system")
    assert "ENOSPC" in ended.text
    phases = ended.json["libraries"][0]["phases"]
    assert phases[-1]["status"] == "failed"
    assert all(phase["rate_last_bytes_per_s"] > 0 for phase in phases[:-1]), "what was measured is kept"
    assert visible(disk) == ["someone-else"]


def test_a_disk_without_inodes(gridwright: Command, tmp_path: Path) -> None:
    with other_mount(tmp_path / "few", "tmpfs", "size=32M", "nr_inodes=2") as library:
        (library / "last").touch()
        ended = gridwright("iotest", "--directory", library)
        refused(ended, library, "no space is left")
        assert visible(library) == ["last"]


def test_a_read_only_mount_is_called_that(gridwright: Command, disk: Path) -> None:
    run("mount", "-o", "remount,ro", disk)
    refused(gridwright("iotest", "--directory", disk), disk, "mounted read-only")


def test_a_kept_set_can_be_read_from_a_read_only_mount(gridwright: Command, disk: Path) -> None:
    keep = "--phases write --keep --size 4MiB --streams 1"
    assert gridwright("iotest", "--directory", disk, *keep.split()).status == 0
    run("mount", "-o", "remount,ro", disk)
    ended = gridwright("iotest", "--directory", disk, "--phases", "read", "--verify", "--size", "4MiB")
    assert ended.status == 0, ended.err


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everyone can reach, with `mine` that nobody may write and `his` that he may."""
    with tempfile.TemporaryDirectory(prefix="gridwright-public-") as name:
        Path(name).chmod(0o755)
        for directory, mode in (("mine", 0o755), ("his", 0o777), ("runs", 0o1777)):
            (Path(name) / directory).mkdir()
            (Path(name) / directory).chmod(mode)
        yield Path(name)


def test_nobody_may_not_write_here(gridwright: Command, public: Path) -> None:
    flags = ("--directory", public / "mine", "--runs", public / "runs")
    ended = gridwright("iotest", *flags, prefix=AS_NOBODY)
    refused(ended, public / "mine", "permission is denied")
    assert visible(public / "mine") == []


def test_nobody_may_test_what_is_his(gridwright: Command, public: Path) -> None:
    flags = ("--directory", public / "his", "--runs", public / "runs", "--size", "1MiB")
    ended = gridwright("iotest", *flags, prefix=AS_NOBODY)
    assert ended.status == 0, ended.err
    assert visible(public / "his") == []


def test_runs_that_nobody_may_write(gridwright: Command, public: Path) -> None:
    flags = ("--directory", public / "his", "--runs", public / "mine", "--size", "1MiB")
    ended = gridwright("iotest", *flags, prefix=AS_NOBODY)
    assert ended.status == 3
    assert "the run directory cannot be made: Permission denied" in ended.text
    assert str(public / "mine") in ended.text
    assert visible(public / "his") == []


def test_an_immutable_directory(gridwright: Command, disk: Path) -> None:
    library = disk / "library"
    library.mkdir()
    run("chattr", "+i", library)
    try:
        refused(gridwright("iotest", "--directory", library), library, "not permitted")
    finally:
        run("chattr", "-i", library)


@pytest.mark.parametrize("engine", ["buffered", pytest.param("direct", marks=pytest.mark.thorough)])
def test_a_device_that_cannot_be_read_any_more(
    gridwright: Command, disk: Path, tmp_path: Path, engine: str
) -> None:
    keep = "--phases write --keep --size 16MiB --streams 2"
    assert gridwright("iotest", "--directory", disk, *keep.split()).status == 0
    run("sync", "-f", disk)
    with (tmp_path / "ext4.img").open("r+b") as image:
        image.truncate(8 * MIB)
    flags = ("--phases", "read", "--size", "16MiB", "--engine", engine, "--json")
    ended = gridwright("iotest", "--directory", disk, *flags)
    refused(ended, disk, "reported an I/O error")
    assert "read at byte" in ended.text
    assert "EIO" in ended.text
    assert ended.json["libraries"][0]["phases"][0]["status"] == "failed"
    with (tmp_path / "ext4.img").open("r+b") as image:
        image.truncate(64 * MIB)


def test_a_file_system_that_refuses_direct_io(gridwright: Command, tmp_path: Path) -> None:
    with other_mount(tmp_path / "ramfs", "ramfs") as library:
        ended = gridwright("iotest", "--directory", library, "--engine", "direct", "--size", "1MiB")
        refused(ended, library, "the file system refuses direct I/O")
        assert "--engine buffered" in ended.text
        assert visible(library) == []


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_memory_is_called_memory_and_its_reads_do_not_count(
    gridwright: Command, tmp_path: Path, kind: str
) -> None:
    with other_mount(tmp_path / kind, kind) as library:
        flags = ("--size", "1MiB", "--requires", "1kB/s/core", "--json")
        ended = gridwright("iotest", "--directory", library, *flags)
        assert visible(library) == []
    assert ended.status == 1, "a requirement that is not proven is missed"
    document = ended.json
    assert document["status"] == "complete"
    assert document["met"] is None
    names = {finding["name"] for finding in document["findings"]}
    assert names - {"disturbed"} == {"memory-backed", "cached"}
    read = document["libraries"][0]["phases"][1]
    assert read["cached"] is True
    assert read["cached_fraction"] > 0.9


def test_a_quota_that_is_used_up(gridwright: Command, tmp_path: Path) -> None:
    needs("mkfs.btrfs", "btrfs")
    with loop_mount(tmp_path, mib=200, kind="btrfs") as library:
        run("btrfs", "quota", "enable", library)
        run("btrfs", "qgroup", "limit", "8M", "0/5", library)
        ended = gridwright("iotest", "--directory", library, "--size", "32MiB", "--streams", "1")
        refused(ended, library, "the quota is used up")
        assert "EDQUOT" in ended.text
        assert visible(library) == []


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_other_file_systems_work(gridwright: Command, tmp_path: Path, kind: str) -> None:
    needs(f"mkfs.{kind}")
    with loop_mount(tmp_path, mib=320, kind=kind) as library:
        for engine in ("buffered", "direct"):
            flags = ("--size", "4MiB", "--engine", engine, "--verify", "--json")
            ended = gridwright("iotest", "--directory", library, *flags)
            assert ended.status == 0, ended.err
            assert ended.json["libraries"][0]["device"]["filesystem_type"] == kind
        assert visible(library) == []


def test_a_read_that_the_host_file_s_memory_can_answer_does_not_count(
    gridwright: Command, disk: Path
) -> None:
    """Direct reads pass the page cache of the file system by, and not that of a loop device's host file."""
    device = describe_mount(disk).device
    assert device is not None

    def read_of(passing_by: str) -> tuple[bool, list[str]]:
        run("losetup", f"--direct-io={passing_by}", f"/dev/{device}")
        ended = gridwright(
            "iotest", "--directory", disk, "--engine", "direct", "--streams", "1", "--size", "16MiB",
            "--allow-disturbed", "--json",
        )  # fmt: skip
        (read,) = (each for each in ended.json["libraries"][0]["phases"] if each["op"] == "read")
        found = [each["text"] for each in ended.json["findings"] if each["name"] == "host-file-cache"]
        return read["cached"], found

    cached, found = read_of("off")
    assert cached
    assert any("were in this machine's page cache when reading began" in text for text in found), found
    assert read_of("on") == (False, [])
