"""The health line is by the judge of `explain-slow`; what cannot be told is not well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridwright.monitor.causes.explaining import explain
from gridwright.monitor.console.answers import HealthLine, health_of
from gridwright.monitor.frame import frame_of
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples
from gridwright.monitor.rows import MountRow
from tests.unit.monitor.test_frame import DATA, MB, ON_DISK, disk, node

UNCOUNTED = {DATA.directory: MountedPlace("/grid", "fuse.mfs", "", ())}
FREE = replace(DATA, required=None)
FULL = {**disk("md0", 20 * MB), **disk("sda", 20 * MB, busy=0.97)}


def health(sample: NodeSamples, library: WatchedLibrary) -> tuple[HealthLine, bool | None]:
    frame = frame_of([sample], [library])
    return health_of(frame, None), explain(frame).filesystems[0].slow


@pytest.mark.parametrize(
    ("sample", "library", "slow", "state"),
    [
        (node(iowait=2.0, places=UNCOUNTED), DATA, None, "unknown"),
        (node(iowait=3.0, counted=FULL, places=ON_DISK), FREE, True, "warning"),
        (node(iowait=3.0, counted=disk("md0", 20 * MB), places=ON_DISK), FREE, None, "unknown"),
        (node(user=0.01, places=UNCOUNTED), DATA, False, "well"),
        (node(user=3.0, counted=disk("md0", 900 * MB), places=ON_DISK), DATA, False, "well"),
    ],
    ids=["clients count nothing", "full", "nothing at its limit", "nobody works", "met"],
)
def test_what_is_slow_or_cannot_be_told_is_not_well(
    sample: NodeSamples, library: WatchedLibrary, slow: bool | None, state: str
) -> None:
    line, told = health(sample, library)
    assert (told, line.state) == (slow, state), line
    if slow is None:
        assert "data on disk: cannot tell whether it is slow" in line.text


def test_a_full_file_system_is_told_with_its_nodes() -> None:
    def mount(node: str, used: float, source: str = "/dev/sda1", point: str = "/") -> MountRow:
        return MountRow(
            node=node, mount_point=point, kernel_type="ext4", source=source, size_bytes=1e12,
            used_part=used, read_bytes_per_s=None, written_bytes_per_s=None, targets=0,
        )  # fmt: skip

    frame = replace(
        frame_of([node()], []),
        mounts=(
            *(mount(f"n{number}", 0.95 + number / 100) for number in (1, 2, 3)),
            mount("n4", 0.5),
            mount("n4", 0.96, "server:/data", "/data"),
        ),
    )
    told = [part.text for part in health_of(frame, None).parts if part.view == "space"]
    assert told == ["/ of n[1-3] is 98% full", "/data of n4 is 96% full"]
