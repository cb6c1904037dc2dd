"""Targets of a recorded Lustre: what its clients count, read without a process, and added up exactly."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.filesystems.lustre_client.counters import read_target_counters
from gridwright.filesystems.mount_table import parse_mounts
from gridwright.monitor.frame import frame_of
from gridwright.monitor.mount_sources import InProcess, moved_sources
from gridwright.monitor.readings import NodeSamples, Reading, Snapshot
from tests.support.skips import root_only

RECORDED = Path(__file__).parents[2] / "fixtures/lustre"
PARAMETER = re.compile(r"^(osc\.\S+|obdfilter\.\S+)=$", re.MULTILINE)


def put(root: Path, step: str) -> None:
    """The parameters of a step of the recording, as files of the kernel have them."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/mounts").write_text((RECORDED / "005-proc-mounts.out").read_text())
    for part in ("b-obdfilter-stats", "c-osc-stats"):
        words = PARAMETER.split((RECORDED / f"{step}-{part}.out").read_text())
        for name, value in zip(words[1::2], words[2::2], strict=True):
            file = root / "sys/kernel/debug/lustre" / name.replace(".", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value.lstrip("\n"))


def readings(root: Path) -> tuple[Reading, ...]:
    mounts = [each for each in parse_mounts((root / "proc/mounts").read_text()) if each.type == "lustre"]
    clients = [each for each in mounts if ":" in each.source]
    return tuple(reading for read in moved_sources(clients, root).values() for reading in read())


@root_only
def test_two_mounts_of_one_file_system_are_counted_together(tmp_path: Path) -> None:
    put(tmp_path, "330-after-write")
    once = {(each.metric, each.labels): each.value for each in readings(tmp_path)}
    for there in (tmp_path / "sys/kernel/debug/lustre/osc").glob("*-osc-[!M]*"):
        shutil.copytree(there, there.with_name(f"{there.name.rpartition('-')[0]}-ffff000000000001"))
    twice = readings(tmp_path)
    assert len(twice) == len(once)
    assert {(each.metric, each.labels): each.value for each in twice} == {
        each: 2 * value for each, value in once.items()
    }


@root_only
def test_the_sums_of_clients_are_what_servers_count(tmp_path: Path) -> None:
    steps = {}
    for step in ("310-before", "330-after-write", "350-after-read"):
        put(tmp_path, step)
        steps[step] = readings(tmp_path), read_target_counters(InProcess(tmp_path), "scratch")
    for before, after in (("310-before", "330-after-write"), ("330-after-write", "350-after-read")):
        (told, served), (told_then, served_then) = steps[before], steps[after]
        one, other = (
            Snapshot("n1", "boot", at, at, 2, 2, each) for at, each in ((1.0, told), (2.0, told_then))
        )
        rows = {row.target: row for row in frame_of([NodeSamples("n1", one, other)]).targets}
        assert set(rows) == {count.target for count in served.values()}
        for name, count in served_then.items():
            row = rows[count.target]
            at = {each.at_s for each in told if each.labels[1] == count.target}
            then = {each.at_s for each in told_then if each.labels[1] == count.target}
            span = max(then) - max(at)
            for rate, moved in (
                (row.written_bytes_per_s, count.written_bytes - served[name].written_bytes),
                (row.read_bytes_per_s, count.read_bytes - served[name].read_bytes),
                (row.writes_per_s, count.writes - served[name].writes),
            ):
                assert rate is not None
                assert round(rate * span) == moved
    assert any(row.read_bytes_per_s for row in rows.values())


def test_clients_of_several_nodes_add_up_and_a_second_mount_counts_once() -> None:
    def snapshot(at: float, name: str, moved: float, points: tuple[str, ...]) -> Snapshot:
        found = [
            Reading(f"gridwright_mount_{what}_total", (point, "fs-OST0000"), moved, at)
            for point in points
            for what in ("read_bytes", "written_bytes", "reads", "writes")
        ]
        return Snapshot(name, name, at, at, 2, 2, tuple(found))

    samples = [
        NodeSamples(name, snapshot(1.0, name, 5.0, points), snapshot(3.0, name, 5.0 + moved, points))
        for name, moved, points in (("n1", 20.0, ("/a", "/b")), ("n2", 60.0, ("/a",)))
    ]
    (row,) = frame_of(samples).targets
    assert (row.clients, row.read_bytes_per_s, row.writes_per_s) == (2, 40.0, 40.0)


def test_no_process_is_started_for_a_sample(tmp_path: Path) -> None:
    run = InProcess(tmp_path)
    with pytest.raises(GridwrightError, match="mmpmon would be one"):
        run(["mmpmon", "-p"])
    assert run(["cat", "/proc/mounts"]).status == 1
    assert run(["lctl", "get_param", "osc.*.stats"]) == CommandOutput(2, b"", b"")
