"""Jobs of one's own on a slow disk: imported from their logs, profiled, replayed and predicted."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems.mounts import describe_mount
from tests.support.command import GRIDWRIGHT
from tests.support.disks import loop_mount
from tests.support.skips import no_such_kernel
from tests.support.workload import Grid

pytestmark = pytest.mark.root

BLKIO = Path("/sys/fs/cgroup/blkio")
BYTES_PER_S = 2_000_000
MIB = 1 << 20
READ_BYTES = 12 * MIB
TIMES = 3
TOLERANCE = 0.15
BURN = "import time\nwhile time.process_time() < 1.5:\n    pass\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with loop_mount(tmp_path, mib=256) as mount_point:
        # What is read ahead at the end of a launch, and not asked for, must be little beside what is.
        device = describe_mount(mount_point).device
        Path(f"/sys/block/{device}/queue/read_ahead_kb").write_text("128")
        yield mount_point


@pytest.fixture
def slow_group(disk: Path) -> Iterator[Path]:
    """A control group whose members read and write slowly on the disk."""
    group = BLKIO / f"gridwright-replay-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        no_such_kernel("no control group of the kind blkio (v1) can be made here")
    number = Path(f"/sys/block/{describe_mount(disk).device}/dev").read_text().strip()
    (group / "blkio.throttle.read_bps_device").write_text(f"{number} {BYTES_PER_S}")
    try:
        yield group
    finally:
        group.rmdir()


class SlowGrid:
    """A grid on the slow disk, and commands that run there."""

    def __init__(self, place: Path, disk: Path, group: Path) -> None:
        self._place, self._group = place, group
        for name in ("data", "work", "util"):
            (disk / name).mkdir()
        self.data = disk / "data"
        self.spec = Grid.write_spec(place, dict.fromkeys(("data", "work", "util"), disk))

    def __call__(self, *words: str | Path, runs: str = "runs") -> dict[str, Any]:
        def enter() -> None:
            (self._group / "cgroup.procs").write_text("0")

        done = subprocess.run(
            [GRIDWRIGHT, *map(str, words), "--runs", str(self._place / runs), "--json"],
            stdout=subprocess.PIPE, preexec_fn=enter, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def medians(launches: list[dict[str, Any]], figure: Any) -> dict[str, float]:
    """The median of a figure of all launches of each test, as profiles take it: the lower of two."""
    names = dict.fromkeys(launch["test"] for launch in launches)
    return {name: statistics.median_low(figure(x) for x in launches if x["test"] == name) for name in names}


def real_s(launch: dict[str, Any]) -> float:
    return float(launch["real_s"])


def cpu_s(launch: dict[str, Any]) -> float:
    return float(launch["user_s"] + launch["system_s"])


@pytest.mark.alone  # times of jobs are compared, which others' work would change
def test_replayed_and_predicted_times_are_those_of_the_jobs(
    tmp_path: Path, disk: Path, slow_group: Path
) -> None:
    grid = SlowGrid(tmp_path, disk, slow_group)
    original = grid.data / "original"
    original.write_bytes(os.urandom(READ_BYTES))
    with original.open("rb") as file:
        os.fsync(file.fileno())
    read = {"command": ["dd", f"if={original}", "of=/dev/null", "bs=1M", "iflag=direct"], "name": "read"}
    burn = {"command": [sys.executable, "-S", "-E", "-c", BURN], "name": "burn"}
    matrix = tmp_path / "jobs.yaml"
    matrix.write_text(json.dumps({"name": "jobs", "streams": [[read, burn] * TIMES]}))
    ran = grid("workload", grid.spec, "--matrix", matrix)
    assert all(launch["ok"] for launch in ran["launches"]), ran["launches"]
    original.unlink()

    imported = grid("workload", "import", Path(ran["run"]) / "logs", runs="imported")
    jobs = medians(imported["launches"], real_s)
    assert jobs == pytest.approx(medians(ran["launches"], real_s), abs=0.01)
    assert {x["device_read_bytes"] // MIB for x in imported["launches"] if x["test"] == "read"} == {
        READ_BYTES // MIB
    }
    profiles = tmp_path / "jobs.json"
    grid("workload", "profile", "last", profiles, runs="imported")

    replayed = grid("workload", "replay", profiles, grid.spec, "--scale", "tiny")
    assert [launch["test"] for launch in replayed["launches"]] == ["read", "burn"] * TIMES
    assert all(launch["ok"] for launch in replayed["launches"]), replayed["launches"]
    again = medians(replayed["launches"], real_s)
    assert again["read"] == pytest.approx(jobs["read"], rel=TOLERANCE)
    # How long a job computes depends on who else computes meanwhile; how much it computes does not.
    computed = medians(replayed["launches"], cpu_s)
    assert computed["burn"] == pytest.approx(medians(imported["launches"], cpu_s)["burn"], rel=TOLERANCE)
    moved = [
        launch["libraries"]["data"]["read_bytes"]
        for launch in replayed["launches"]
        if launch["test"] == "read"
    ]
    assert moved == pytest.approx([READ_BYTES] * TIMES, rel=0.05)
    assert {row["test"] for row in replayed["replayed"]} == {"read", "burn"}

    grid("iotest", grid.spec, "--seconds", "2", runs="iotest")
    predicted = grid("predict", grid.spec, "--workload", profiles, "--calibrate", "last", runs="iotest")
    expected = {test["test"]: test["real_s"] for test in predicted["tests"]}
    assert expected == pytest.approx(jobs, rel=TOLERANCE)
