"""A disk that gives 4 MB/s: the diagnosis names it, where a fast one is not named."""

from __future__ import annotations

import json
import os
import subprocess
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
READ_BYTES_PER_S = 4_000_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with loop_mount(tmp_path, mib=128) as mount_point:
        yield mount_point


@pytest.fixture
def slow_group(disk: Path) -> Iterator[Path]:
    """A control group whose members read at most 4 MB/s from the disk."""
    limit = "blkio.throttle.read_bps_device"
    group = BLKIO / f"gridwright-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        no_such_kernel("no control group of the kind blkio (v1) can be made here")
    device = describe_mount(disk).device
    number = Path(f"/sys/block/{device}/dev").read_text().strip()
    (group / limit).write_text(f"{number} {READ_BYTES_PER_S}")
    try:
        yield group
    finally:
        group.rmdir()


def launch_of(place: Path, disk: Path, group: Path | None) -> dict[str, Any]:
    """Run `append` at scale tiny, which reads 14 MB, as a member of a control group."""
    matrix = place / "append.yaml"
    matrix.write_text("name: append\nstreams:\n  - [append]\n")
    for name in ("data", "work", "util"):
        (disk / name).mkdir(exist_ok=True)
    spec = Grid.write_spec(place, dict.fromkeys(("data", "work", "util"), disk))
    spec.write_text(
        spec.read_text().replace(
            "data: {filesystem: data}", "data: {filesystem: data, requires: 100 MB/s/core}"
        )
    )

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text("0")

    done = subprocess.run(
        [
            GRIDWRIGHT,
            "workload",
            str(spec),
            "--matrix",
            str(matrix),
            "--scale",
            "tiny",
            "--runs",
            str(place / "runs"),
            "--json",
        ],
        stdout=subprocess.PIPE,
        preexec_fn=enter,
        check=False,
        timeout=120,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    (launch,) = document["launches"]
    assert launch["ok"]
    found = {"diagnosis": document["summary"]["diagnosis"], "requirements": document["requirements"]}
    return {**launch, **found, "met": document["met"], "exit": done.returncode}


def test_a_slow_disk_is_named_with_its_share(tmp_path: Path, disk: Path, slow_group: Path) -> None:
    fast = launch_of(tmp_path, disk, None)
    slow = launch_of(tmp_path, disk, slow_group)
    assert slow["bound_by"] == "data read"
    assert slow["bound_share"] > 0.5
    assert "Reading data held the cores back" in slow["diagnosis"]
    assert fast["bound_by"] != "data read"
    assert slow["cpu_real_ratio"] < fast["cpu_real_ratio"]
    (missed,) = slow["requirements"]
    assert (slow["exit"], slow["met"]) == (1, False), "right answers alone are not enough"
    assert (missed["of"], missed["required"], missed["met"]) == ("data", 100e6, False)
    assert missed["measured"] < 3 * READ_BYTES_PER_S
    # What the disk may give bounds what it gave: 12 MB at 4 MB/s, less what was read ahead.
    assert slow["libraries"]["data"]["read_wait_s"] > 1.0
    assert slow["device_read_bytes"] > 0.4 * slow["libraries"]["data"]["read_bytes"]
