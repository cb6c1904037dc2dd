"""Servers of a recorded Lustre: what they tell is added up exactly, by their own clocks, and half dead."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput, run_here
from gridwright.errors import GridwrightError
from gridwright.filesystems.counters import FigureSource, Reading
from gridwright.filesystems.lustre_client.counters import ParameterFiles, read_target_counters
from gridwright.filesystems.lustre_client.served import (
    STATES,
    ServedJobs,
    parse_brw_stats,
    recovery_readings,
    server_figures,
)
from gridwright.filesystems.mounts import parse_mounts
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.mount_sources import InProcess, moved_sources
from gridwright.monitor.readings import LABELS, NodeSamples, Snapshot
from gridwright.monitor.sampler import PacedSource, Sampler
from gridwright.monitor.served_rows import SOURCE
from gridwright.monitor.views import Chosen, notes, served_views
from tests.fixtures.lustre_node import printed, recorded_parameters
from tests.fixtures.lustre_tree import grow_tree, put_parameter
from tests.support.skips import root_only

MIB = 2**20
CALM = ("032-param-health-check", "041-param-osd-space", "043-param-lock_count", "054-param-osc-state")
BEFORE = ("310-before-b-obdfilter-stats", "310-before-h-md_stats", "310-before-i-job_stats-ost")
WRITTEN = ("330-after-write-b-obdfilter-stats", "330-after-write-i-job_stats-ost")


def read(root: Path, name: str) -> list[Reading]:
    return server_figures(run_here, root)[name].read()


def all_readings(root: Path) -> tuple[Reading, ...]:
    return tuple(reading for each in server_figures(run_here, root).values() for reading in each.read())


def frame(*readings: Sequence[Reading], silent: Mapping[str, str] | None = None) -> Frame:
    one, other = (
        Snapshot("oss1", "boot", at, at, 2, 2, tuple(each), silent=dict(silent or {}))
        for at, each in zip((1.0, 2.0), readings, strict=True)
    )
    return frame_of([NodeSamples("oss1", one, other)])


@root_only
def test_targets_have_moved_what_was_moved_over_the_time_of_their_own_snapshots(tmp_path: Path) -> None:
    grow_tree(tmp_path, *CALM, *BEFORE, "059-param-num_exports", "extra-22-ldlm-stats")
    before, counts = all_readings(tmp_path), read_target_counters(InProcess(tmp_path), "scratch")
    grow_tree(tmp_path, *WRITTEN)
    after, counted = all_readings(tmp_path), read_target_counters(InProcess(tmp_path), "scratch")
    rows = {row.target: row for row in frame(before, after).osts}
    assert list(rows) == ["scratch-OST0000", "scratch-OST0001"]
    for name, count in counted.items():
        row, old = rows[count.target], counts[name]
        span = count.at_s - old.at_s
        assert row.written_bytes_per_s == (count.written_bytes - old.written_bytes) / span
        assert row.written_bytes_per_s == 100 * MIB / span
        assert row.bulk_per_s == (count.writes - old.writes + count.reads - old.reads) / span
        assert (row.server, row.state, row.exports, row.locks) == ("oss1", "F", 2, 0)
        assert row.space == pytest.approx(1 - 3831724 / 3833116)
    locks = {each.key: each for each in after if each.labels == ("ost", "scratch-OST0000")}
    granted = locks["gridwright_lock_grants_total", "ost", "scratch-OST0000"]
    assert (granted.value, granted.at_s, granted.since_s) == (32, 1795229586.924478720, 1795229410.755871780)
    assert locks["gridwright_lock_cancels_total", "ost", "scratch-OST0000"].value == 30
    for each in after:
        assert len(each.labels) == len(LABELS[each.metric]), each
    assert len({each.key for each in after}) == len(after)


def test_jobs_of_servers_add_up_to_what_their_targets_moved(tmp_path: Path) -> None:
    times = iter((1795228010.0, 1795228018.0, 1795228030.0))
    source = ServedJobs(ParameterFiles(tmp_path), lambda: next(times))
    grow_tree(tmp_path, "310-before-i-job_stats-ost")
    before = source.read()
    grow_tree(tmp_path, "330-after-write-i-job_stats-ost")
    written = source.read()
    grow_tree(tmp_path, "350-after-read-i-job_stats-ost")
    after = source.read()

    def moved(old: list[Reading], new: list[Reading], metric: str) -> dict[tuple[str, ...], float]:
        was = {each.key: each for each in old if each.metric == metric}
        return {
            each.labels[-2:]: each.value - was[each.key].value
            for each in new
            if each.key in was and each.since_s == was[each.key].since_s
        }

    # In the interval in which a job appears, the series of the others has what it moved.
    assert moved(before, written, "lustre_job_write_bytes_total") == {
        ("scratch-OST0000", "kworker.0"): 0,
        ("scratch-OST0000", "other"): 100 * MIB,
        ("scratch-OST0001", "other"): 100 * MIB,
    }
    by_job = moved(before, written, "gridwright_served_job_written_bytes_total")
    assert by_job == {("scratch", "kworker.0"): 0, ("scratch", "other"): 200 * MIB}
    read_again = moved(written, after, "gridwright_served_job_read_bytes_total")
    assert sum(read_again.values()) == 200 * MIB
    assert ("scratch", "dd.0") in read_again


@root_only
def test_counters_that_were_cleared_have_no_rate_and_jobs_count_from_there(tmp_path: Path) -> None:
    grow_tree(tmp_path, "330-after-write-b-obdfilter-stats")
    before = read(tmp_path, SOURCE)
    grow_tree(tmp_path, "381-stats-reset")
    cleared = read(tmp_path, SOURCE)
    (row, _) = frame(before, cleared).osts
    assert (row.written_bytes_per_s, row.bulk_per_s, row.stale) == (None, None, "")
    later = [each._replace(value=each.value + 5, at_s=each.at_s + 1) for each in cleared]
    assert frame(cleared, later).osts[0].written_bytes_per_s == 5


@root_only
def test_operations_of_an_mdt_are_those_of_its_own_clock_and_what_never_was_is_nought(tmp_path: Path) -> None:
    grow_tree(tmp_path, "310-before-h-md_stats")
    before = read(tmp_path, SOURCE)
    grow_tree(tmp_path, "370-after-mixed-h-md_stats")
    (row,) = frame(before, read(tmp_path, SOURCE)).mdts
    span = 1795228056.462673020 - 1795228011.557015810
    assert row.operations["open"] == pytest.approx((253 - 47) / span)
    assert row.operations["unlink"] == pytest.approx((9 - 1) / span)
    # It was first seen to have happened: how often within this time cannot be told.
    assert row.operations["rename"] is None
    assert frame(before, before).mdts[0].operations["rename"] == 0


@root_only
@pytest.mark.parametrize(
    ("recordings", "letters"),
    [
        (("054-param-osc-state",), {"scratch-OST0000": "F", "scratch-OST0001": "F"}),
        (("926-ostdown-state",), {"scratch-OST0001": "D"}),
        # The network drops requests: a client has not noticed of one what the MDT has.
        (("drop-silent-25s-state",), {"scratch-OST0000": "D", "scratch-OST0001": "D"}),
        (("drop-mended-22s-state",), {"scratch-OST0000": "F", "scratch-OST0001": "F"}),
    ],
)
def test_an_ost_that_no_server_tells_of_has_the_state_that_the_mds_sees(
    tmp_path: Path, recordings: tuple[str, ...], letters: dict[str, str]
) -> None:
    grow_tree(tmp_path, *recordings)
    rows = frame([], read(tmp_path, "connections of Lustre")).osts
    assert {row.target: row.state for row in rows} == letters
    assert {(row.server, row.read_bytes_per_s, row.locks) for row in rows} == {("", None, None)}


@root_only
def test_a_recovery_is_a_line_for_its_file_system_until_it_is_over(tmp_path: Path) -> None:
    def lines(recording: str) -> list[str]:
        grow_tree(tmp_path, recording)
        return notes(frame([], read(tmp_path, "recovery of Lustre")))

    assert lines("recov-12-mdt-status-3") == [
        "recovery of scratch: scratch-MDT0000 on oss1: recovering, 0 of 1 clients are back, 293 s left"
    ]
    (early,) = lines("941-recovery_status-early")
    assert early.endswith("scratch-OST0001 on oss1: waiting for clients") or "recovering" in early
    grow_tree(tmp_path, "941-recovery_status-early")
    assert lines("recov-15-mdt-status-after-abort") == [
        "recovery of scratch: scratch-OST0001 on oss1: waiting for clients"
    ]
    assert lines("943-recovery_status-final") == []


def test_every_recorded_word_of_a_recovery_has_a_figure() -> None:
    names = (
        "941-recovery_status-early",
        "942-recovery_status-1",
        "recov-12-mdt-status-3",
        "955-mdt-recovery_status",
    )
    for parameter, text in recorded_parameters(*names).items():
        (status, *_) = recovery_readings("ost", parameter, text.partition("=")[2], 1.0)
        assert status.value in STATES.values()
    assert list(recovery_readings("ost", "x", "", 1.0)) == []
    assert next(recovery_readings("ost", "x", "status: ASLEEP", 1.0)).value not in STATES.values()


def test_shapes_of_requests_are_counted_by_size() -> None:
    text = recorded_parameters("310-before-f-brw_stats-osd")["osd-ldiskfs.scratch-OST0000.brw_stats"]
    told = {each.key: each for each in parse_brw_stats("ost", "scratch-OST0000", text)}
    key = ("lustre_pages_per_bulk_rw_total", "ost", "write", "1024", "scratch-OST0000")
    assert told[key].value == 32
    assert (told[key].at_s, told[key].since_s) == (1795228010.989409140, 1795227698.094456390)
    assert told["lustre_disk_io_total", "ost", "write", str(4 * MIB), "scratch-OST0000"].value == 32
    writes = [
        each.value for key, each in told.items() if key[0] == "lustre_disk_io_total" and key[2] == "write"
    ]
    assert sum(writes) == 40


class Lctl:
    """An lctl that says what was recorded, or hangs."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.hangs = threading.Event()
        self.hangs.set()

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.asked.append(command)
        self.hangs.wait(60)
        return CommandOutput(0, printed("330-after-write-b-obdfilter-stats").encode(), b"")


@root_only
def test_lctl_is_asked_only_for_what_no_file_tells_and_once_a_minute(tmp_path: Path) -> None:
    lctl = Lctl()
    grow_tree(tmp_path, "330-after-write-b-obdfilter-stats", "059-param-num_exports")
    put_parameter(
        tmp_path, "mdt.scratch-MDT0000.md_stats", "snapshot_time 2.0 secs\nopen 1 samples [usecs]\n"
    )
    Sampler(root=tmp_path, run=lctl).sample()
    assert lctl.asked == []
    for file in (tmp_path / "sys/kernel/debug/lustre").glob("obdfilter/*/stats"):
        file.unlink()
    sampler = Sampler(root=tmp_path, run=lctl)
    for _ in range(3):
        found = sampler.sample()
    assert lctl.asked == [
        ["lctl", "get_param", "obdfilter.scratch-OST0000.stats", "obdfilter.scratch-OST0001.stats"]
    ]
    assert {each.labels[2] for each in found.readings if each.metric == "lustre_write_bytes_total"} == {
        "scratch-OST0000",
        "scratch-OST0001",
    }


@root_only
def test_an_lctl_that_hangs_is_told_and_holds_nothing_up(tmp_path: Path) -> None:
    lctl = Lctl()
    lctl.hangs.clear()
    grow_tree(tmp_path, "032-param-health-check", "059-param-num_exports")
    sampler = Sampler(root=tmp_path, run=lctl)
    for _ in range(2):
        found = sampler.sample()
    assert "lustre_exports" in {each.metric for each in found.readings}
    assert found.silent["lctl"].startswith("no answer for ")
    assert len(lctl.asked) == 1
    lctl.hangs.set()


def test_what_does_not_answer_stands_with_its_reason_and_without_rates() -> None:
    reading = Reading("lustre_read_bytes_total", ("ost", "read", "fs-OST0001"), 5.0, 1.0)
    found = frame([reading], [reading], silent={SOURCE: "no answer for 7 s"})
    (row,) = found.osts
    assert (row.read_bytes_per_s, row.stale) == (None, "no answer for 7 s")
    assert notes(found)[-1] == f"{SOURCE} of oss1: no answer for 7 s"
    (view,) = served_views(found, Chosen())
    assert [cell.text for cell in view.rows[0].cells[-1:]] == ["no answer for 7 s"]


def test_a_source_is_read_when_it_is_due_and_keeps_its_rate_in_between() -> None:
    values = iter((10.0, 30.0, 60.0))

    def tell() -> list[Reading]:
        value = next(values)
        return [Reading("gridwright_served_job_operations_total", ("ost", "fs", "7"), value, value)]

    paced = PacedSource(FigureSource(tell, every_s=0.0))
    first, second = paced.read(), paced.read()
    slow = PacedSource(FigureSource(tell, every_s=3600.0), first.readings)
    third = slow.read()
    assert (second.earlier, third.earlier) == ([], [])
    again = slow.read()
    assert (again.readings, again.earlier) == (third.readings, first.readings)
    one = Snapshot("n", "b", 1, 1, 1, 1, tuple(third.readings))
    other = Snapshot("n", "b", 2, 2, 1, 1, tuple(again.readings), earlier=tuple(again.earlier))
    assert frame_of([NodeSamples("n", one, other)]).served_jobs[0].operations_per_s == 1.0


def test_a_source_that_fails_is_asked_again_when_it_is_due_and_no_sooner() -> None:
    asked = []

    def fail() -> list[Reading]:
        asked.append(1)
        raise OSError("it is not there")

    for every_s, times in ((3600.0, 1), (0.0, 3)):
        asked.clear()
        paced = PacedSource(FigureSource(fail, every_s))
        for _ in range(3):
            with pytest.raises(OSError, match="it is not there"):
                paced.read()
        assert len(asked) == times


MANY = """
import re, sys
from pathlib import Path
from gridwright.filesystems.lustre_client.counters import ParameterFiles
from gridwright.filesystems.lustre_client.served import ServedJobs

root = Path(sys.argv[1])
jobs, times = ServedJobs(ParameterFiles(root), lambda: 100.0), []
row = "  write_bytes: {{ samples: {0}, unit: bytes, min: 1, max: 1, sum: {1}, sumsq: 1, hist: {{ }} }}\\n"
idle = "  operation: { samples: 0, unit: usecs, min: 0, max: 0, sum: 0, sumsq: 0 }\\n" * 20
files = [root / f"proc/fs/lustre/obdfilter/fs-OST{n:04x}/job_stats" for n in range(4)]
for look in (1, 2, 3):
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as out:
            out.write("job_stats:\\n")
            for job in range(10_000):
                head = f"- job_id: job.{job}\\n  start_time: 5.0 secs.nsecs\\n"
                out.write(head + row.format(look, look * job) + idle)
    found = jobs.read()
    metric = "gridwright_served_job_written_bytes_total"
    sums = {each.key: each.value for each in found if each.metric == metric}
    if look == 3:
        moved = sum(value - before[key] for key, value in sums.items() if key in before)
        highest = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
        print(len(found), moved, int(highest) >> 10)
    before = sums
"""


def test_ten_thousand_jobs_on_each_target_are_a_hundred_series_and_one_and_take_little_memory(
    tmp_path: Path,
) -> None:
    told = run_here([sys.executable, "-c", MANY, str(tmp_path)], timeout_s=100)
    series, moved, megabytes = map(int, told.stdout.split())
    assert moved == 4 * sum(range(10_000))
    # Of jobs, and of jobs on targets: a hundred each, and the others, which each target has.
    assert series == (100 + 1) * 5 + (100 + 4) * 5
    assert megabytes < 60


def test_a_server_is_no_node_whose_cores_wait_for_a_library() -> None:
    def snapshot(node: str, at: float, own: tuple[Reading, ...]) -> Snapshot:
        modes = ("user", "system", "iowait")
        cpu = tuple(Reading("node_cpu_seconds_total", (mode,), at, at) for mode in modes)
        return Snapshot(node, node, at, at, 8, 4, (*cpu, *own))

    def served(at: float) -> tuple[Reading, ...]:
        return (Reading("lustre_read_bytes_total", ("ost", "read", "fs-OST0000"), at, at),)

    def moved(at: float) -> tuple[Reading, ...]:
        return (Reading("gridwright_mount_read_bytes_total", ("/fs", "fs-OST0000"), at, at),)

    def nothing(_at: float) -> tuple[Reading, ...]:
        return ()

    def busy(*own: Callable[[float], tuple[Reading, ...]]) -> float | None:
        def told(at: float) -> tuple[Reading, ...]:
            return tuple(each for make in own for each in make(at))

        samples = [
            NodeSamples(name, snapshot(name, 1.0, of(1.0)), snapshot(name, 2.0, of(2.0)))
            for name, of in (("n1", nothing), ("oss1", told))
        ]
        (library,) = frame_of(samples, [WatchedLibrary("data", "fs", "/fs/data", None)]).libraries
        return library.busy_cores

    assert busy() == 6
    assert busy(served) == 3
    assert busy(served, moved) == 6, "a server that is a client, too, works with the others"


# Targets of a recorded Lustre: what its clients count, read without a process, and added up exactly.

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
