"""The workload on file systems that fill up or refuse, and where memory runs out."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.disks import loop_mount, other_mount, run
from tests.support.skips import no_such_kernel
from tests.support.workload import Grid, sh

pytestmark = pytest.mark.root
MIB = 1 << 20


@pytest.fixture
def grid(tmp_path: Path, gridwright: Command) -> Iterator[Grid]:
    """A grid whose work is a disk of 32 MiB."""
    found = Grid(tmp_path, gridwright)
    place = tmp_path / "loop"
    place.mkdir()
    with loop_mount(place, mib=32) as disk:
        (disk / "work").mkdir()
        roots = {"data": found.disk, "work": disk, "util": found.disk}
        found.spec = Grid.write_spec(tmp_path, roots)
        yield found


def work_of(grid: Grid) -> Path:
    return next((grid.spec.parent / "loop").glob("a *")) / "work"


def test_a_full_disk_fails_the_launch_that_filled_it_and_the_rest_goes_on(grid: Grid) -> None:
    ended = grid.run(
        [sh("dd if=/dev/zero of=big bs=1M", name="fills"), sh("dd if=/dev/zero of=big bs=1M count=20")]
    )
    assert ended.status == 1, ended.err
    fills, after = ended.json["launches"]
    assert not fills["ok"]
    assert "No space left on device" in (Path(ended.json["run"]) / fills["log"]).read_text()
    assert after["ok"], "what the first one wrote is gone"
    assert [*work_of(grid).iterdir()] == []


def test_the_reason_names_the_full_disk(grid: Grid) -> None:
    ended = grid.run([sh("cat /dev/zero > big", name="fills")], [sh("sleep 1", name="nap")])
    assert ended.status == 1
    fills, nap = ended.json["launches"]
    assert "No space left on device" in fills["reason"]
    assert nap["ok"]


def test_a_test_on_a_disk_that_someone_else_fills(grid: Grid) -> None:
    """There was room when it began."""
    filler = work_of(grid) / "someone-else"
    fill = sh(f"sleep 0.1; cat /dev/zero > {str(filler)!r}; sleep 1; true", name="fill")
    ended = grid.run([fill, {"test": "sort"}, sh(f"rm {str(filler)!r}")], flags=["--scale", "tiny"])
    assert ended.status == 1, ended.err
    _, sort, _ = ended.json["launches"]
    assert not sort["ok"]
    assert "No space left on device" in sort["reason"]
    assert [*work_of(grid).iterdir()] == []


def test_a_workload_that_does_not_fit_is_refused_before_anything_is_written(grid: Grid) -> None:
    ended = grid.run([{"test": "sort"}], flags=["--scale", "medium"])
    assert ended.status == 3, ended.err
    assert "not enough space" in ended.text
    assert str(work_of(grid)) in ended.text
    assert [*work_of(grid).iterdir()] == []
    assert [*grid.library("data").rglob("*.*")] == []


def test_a_read_only_work_is_named(grid: Grid) -> None:
    disk = work_of(grid).parent
    run("mount", "-o", "remount,ro", disk)
    try:
        ended = grid.run([["true"]])
    finally:
        run("mount", "-o", "remount,rw", disk)
    assert ended.status == 3, ended.err
    assert "Read-only file system" in ended.text
    assert str(work_of(grid)) in ended.text
    assert ended.json["status"] == "failed"
    assert grid.left() == []


def test_a_data_library_that_is_full_is_named(tmp_path: Path, gridwright: Command) -> None:
    grid = Grid(tmp_path, gridwright)
    with other_mount(tmp_path / "small", "tmpfs", "size=1M") as small:
        (small / "data").mkdir()
        grid.spec = Grid.write_spec(tmp_path, {"data": small, "work": grid.disk, "util": grid.disk})
        ended = grid.run([{"test": "sort"}], flags=["--scale", "tiny"])
        assert ended.status == 3, ended.err
        assert "not enough space" in ended.text
        assert str(small / "data") in ended.text


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """A control group (v1) of 400 MiB."""
    place = Path("/sys/fs/cgroup/memory") / f"gridwright-test-{os.getpid()}"
    try:
        place.mkdir()
        (place / "memory.limit_in_bytes").write_text(str(400 * MIB))
    except OSError:
        no_such_kernel("no control group of the kind memory (v1) can be made here")
    yield place
    for _ in range(50):
        with contextlib.suppress(OSError):
            place.rmdir()
            return
        time.sleep(0.1)


def test_a_launch_that_the_kernel_kills_for_memory_says_so(
    tmp_path: Path, gridwright: Command, small_memory: Path
) -> None:
    grid = Grid(tmp_path, gridwright)
    hog = "held = bytearray(2 << 30); held[::4096] = b'1' * len(held[::4096])"
    entry = {"command": [sys.executable, "-S", "-c", hog], "name": "hog", "memory": "8GiB"}
    inside = ("sh", "-c", f'echo $$ > {small_memory}/cgroup.procs; exec "$@"', "sh")
    ended = gridwright(*grid.arguments([entry, ["true"]], [sh("sleep 2", name="nap")]), prefix=inside)
    assert ended.status == 1, ended.err
    launches = {launch["test"]: launch for launch in ended.json["launches"]}
    assert launches["hog"]["reason"].startswith("killed by the kernel for memory")
    assert launches["hog"]["signal"] == "SIGKILL"
    assert launches["hog"]["bound_by"] == "memory"
    assert launches["true"]["ok"]
    assert launches["nap"]["ok"]
    assert grid.left() == []
