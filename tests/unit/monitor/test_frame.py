"""The picture: what is delivered against what is required, and what binds; and what would fool it."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.frame_tables import frame_text
from gridwright.monitor.job_rows import job_row
from gridwright.monitor.libraries import LibraryRow, Standing, WatchedLibrary
from gridwright.monitor.readings import MountedPlace, NodeSamples, Reading, Snapshot
from gridwright.monitor.rows import seen

MB = 1e6
Counted = dict[tuple[str, ...], float]
DATA = WatchedLibrary("data", "disk", "/grid/data", 100 * MB)
WORK = WatchedLibrary("work", "disk", "/grid/work", 125 * MB)
ON_DISK = {each.directory: MountedPlace("/grid", "xfs", "md0", ("md0", "sda")) for each in (DATA, WORK)}
SERVED = {DATA.directory: MountedPlace("/grid", "nfs4", "", ())}


def node(
    name: str = "n1",
    *,
    machine: str = "",
    user: float = 0.0,
    iowait: float = 0.0,
    counted: Counted | None = None,
    gauges: Counted | None = None,
    places: dict[str, MountedPlace] | None = None,
    before: Counted | None = None,
    seconds: float = 2.0,
    **more: Any,
) -> NodeSamples:
    """A node of 4 cores and 8 CPUs; `counted` are rates per second, `before` what counters had."""
    rates = {
        ("node_cpu_seconds_total", "user"): user,
        ("node_cpu_seconds_total", "system"): 0.0,
        ("node_cpu_seconds_total", "iowait"): iowait,
        **(counted or {}),
    }
    begun = dict.fromkeys(rates, 1000000.0) | (before or {})

    def snapshot(at: float, values: Counted) -> Snapshot:
        readings = [Reading(key[0], key[1:], value, at) for key, value in values.items()]
        return Snapshot(
            name, machine or name, 100 + at, at, 8, 4, tuple(readings), places=places or {}, **more
        )

    after = {key: 1e6 + rate * seconds for key, rate in rates.items()} | (gauges or {})
    return NodeSamples(name, snapshot(10.0, begun), snapshot(10.0 + seconds, after))


def disk(name: str, read: float, written: float = 0.0, busy: float = 0.0) -> Counted:
    return {
        ("node_disk_read_bytes_total", name): read,
        ("node_disk_written_bytes_total", name): written,
        ("node_disk_io_time_seconds_total", name): busy,
    }


def mount(read: float, target: str = "OST0") -> Counted:
    return {
        ("gridwright_mount_read_bytes_total", "/grid", target): read,
        ("gridwright_mount_written_bytes_total", "/grid", target): 0.0,
    }


def row(*samples: NodeSamples, libraries: tuple[WatchedLibrary, ...] = (DATA,)) -> LibraryRow:
    (found,) = frame_of(samples, libraries).libraries
    return found


def test_what_a_disk_moves_is_held_against_the_largest_requirement_of_its_libraries() -> None:
    busy = node(user=2.0, counted=disk("md0", 150 * MB, 90 * MB), places=ON_DISK)
    found = row(busy, libraries=(DATA, WORK))
    assert (found.libraries, found.required_per_core) == (("data", "work"), 125 * MB)
    assert found.busy_cores == pytest.approx(2.0)
    assert found.per_core == pytest.approx(120 * MB)
    assert found.standing is Standing.NOT_ASKED
    assert row(busy).standing is Standing.MET
    assert found.note == "all that disk md0 moves"


def test_a_full_disk_below_a_library_binds_and_one_beside_it_does_not() -> None:
    slow = {**disk("md0", 50 * MB), **disk("sda", 50 * MB, busy=0.97), **disk("sdz", 9 * MB, busy=1.0)}
    found = row(node(user=0.5, iowait=1.5, counted=slow, places=ON_DISK))
    assert found.standing is Standing.BELOW
    assert found.binds == ("disk sda of n1 is busy 97% of the time",)


def test_cores_that_wait_for_storage_are_busy_or_a_slow_disk_would_look_good() -> None:
    waiting = node(user=0.1, iowait=3.0, counted=disk("md0", 20 * MB), places=ON_DISK)
    found = row(waiting)
    assert found.per_core == pytest.approx(20 * MB / 3.1)
    assert found.standing is Standing.BELOW
    assert found.binds == ()


def test_jobs_that_compute_miss_nothing_of_storage() -> None:
    found = row(node(user=8.0, counted=disk("md0", 5 * MB), places=ON_DISK))
    assert found.standing is Standing.NOT_ASKED
    assert found.binds == ("CPUs of n1 run 100% of the time",)
    assert "less is asked for: CPUs of n1 run" in frame_text(
        frame_of([node(user=8.0, counted=disk("md0", 5 * MB), places=ON_DISK)], [DATA])
    )


def test_hyperthreads_are_no_cores() -> None:
    assert row(node(user=8.0, counted=disk("md0", 0.0), places=ON_DISK)).busy_cores == 4.0


def test_an_idle_grid_binds_nothing_and_misses_nothing() -> None:
    found = row(node(user=0.02, counted=disk("md0", 1000.0, busy=0.01), places=ON_DISK))
    assert (found.standing, found.binds, found.per_core) == (Standing.IDLE, (), None)


def test_a_counter_that_began_anew_gives_no_figure_rather_than_a_wrong_one() -> None:
    cleared = node(
        user=2.0,
        counted=disk("md0", 150 * MB),
        places=ON_DISK,
        before={("node_disk_read_bytes_total", "md0"): 9e12},
    )
    found = row(cleared)
    assert (found.read_bytes_per_s, found.per_core, found.standing) == (None, None, Standing.UNKNOWN)
    (seen,) = frame_of([cleared]).disks
    assert seen.read_bytes_per_s is None
    assert seen.written_bytes_per_s == 0.0


def test_one_target_without_a_rate_leaves_a_mount_without_one() -> None:
    both = {**mount(100 * MB), **mount(100 * MB, "OST1")}
    key = ("gridwright_mount_read_bytes_total", "/grid", "OST1")
    (whole,) = frame_of([node(counted=both)]).mounts
    (part,) = frame_of([node(counted=both, before={key: 9e12})]).mounts
    assert whole.read_bytes_per_s == pytest.approx(200 * MB)
    assert whole.targets == 2
    assert (part.read_bytes_per_s, part.targets) == (None, 2)


def test_clients_of_a_served_file_system_add_up_and_their_cards_can_bind() -> None:
    card: Counted = {
        ("node_network_receive_bytes_total", "eth0"): 1200 * MB,
        ("node_network_transmit_bytes_total", "eth0"): 0.0,
    }
    speed: Counted = {("node_network_speed_bytes", "eth0"): 1250 * MB}
    nodes = [
        node(name, user=2.0, counted={**mount(rate * MB), **card}, gauges=speed, places=SERVED)
        for name, rate in (("n1", 150), ("n2", 50))
    ]
    found = row(*nodes)
    assert found.read_bytes_per_s == pytest.approx(200 * MB)
    assert found.busy_cores == pytest.approx(4.0)
    assert found.binds == tuple(f"card eth0 of {name} moves 96% of its rate" for name in ("n1", "n2"))
    assert found.standing is Standing.BELOW


def test_nodes_of_one_machine_have_its_cores_and_disks_once() -> None:
    nodes = [
        node(name, machine="host", user=busy, counted=disk("md0", rate * MB), places=ON_DISK)
        for name, busy, rate in (("n1", 3.0, 300), ("n2", 3.5, 280))
    ]
    found = row(*nodes)
    assert found.busy_cores == pytest.approx(3.0)
    assert found.read_bytes_per_s == pytest.approx(300 * MB)
    frame = frame_of(nodes)
    assert [each.node for each in frame.disks] == ["n1"]
    assert "n1, n2 are of one machine" in frame_text(frame)


def test_clients_that_count_nothing_leave_the_library_untold() -> None:
    found = row(node(user=2.0, places={DATA.directory: MountedPlace("/grid", "fuse.x", "", ())}))
    assert found.standing is Standing.UNKNOWN
    assert found.note == "clients of fuse.x count nothing"


@pytest.mark.parametrize(("state", "why"), [("DISCONN", "OST1: not connected (DISCONN)"), ("IDLE", "")])
def test_without_a_spec_a_mount_whose_target_is_away_is_not_whole(state: str, why: str) -> None:
    counted: dict[tuple[str, ...], float] = {
        (f"gridwright_mount_{way}_bytes_total", "/lustre", "fs-OST1"): 0.0 for way in ("read", "written")
    }
    connection: dict[tuple[str, ...], float] = {
        ("gridwright_connection_state", "fs-OST1-osc-ffff", "fs-OST1", state): 1.0
    }
    frame = frame_of([node(counted=counted, gauges=connection)])
    (mount,) = frame.mounts
    assert mount.silent == why.replace("OST1", "fs-OST1")
    assert frame.whole is not bool(why)


def test_a_node_that_is_away_is_a_row_that_says_so_and_the_others_are_told() -> None:
    here = node(user=2.0, counted=disk("md0", 300 * MB), places=ON_DISK)
    frame = frame_of([here, NodeSamples("n2", absent="no answer in time")], [DATA])
    assert [each.absent for each in frame.nodes] == ["", "no answer in time"]
    assert not frame.whole
    (found,) = frame.libraries
    assert found.standing is Standing.MET
    assert found.note == "all that disk md0 moves; without n2"
    assert "n2 is away: no answer in time" in frame_text(frame)


def test_a_mount_that_hangs_is_a_row_that_says_so() -> None:
    (found,) = frame_of([node(silent={"/dead": "no answer for 7 s", "jobs": "no answer for 1 s"})]).mounts
    assert (found.mount_point, found.silent, found.size_bytes) == ("/dead", "no answer for 7 s", None)


def test_all_nodes_away_are_an_empty_picture() -> None:
    frame = frame_of([NodeSamples("n1", absent="no route")], [DATA])
    assert isinstance(frame, Frame)
    assert frame.libraries[0].standing is Standing.UNKNOWN
    assert frame.document()["nodes"][0]["absent"] == "no route"
    assert "n1 is away: no route" in frame_text(frame)


def test_jobs_beyond_a_hundred_are_one_row_with_exact_sums() -> None:
    counted: Counted = {}
    gauges: Counted = {}
    for number in range(250):
        job = f"{number:03}"
        counted[("gridwright_job_read_bytes_total", job)] = float(number * 1000)
        counted[("gridwright_job_written_bytes_total", job)] = 500.0
        counted[("gridwright_job_cpu_seconds_total", job)] = 0.25
        gauges |= {("gridwright_job_processes", job): 2, ("gridwright_job_resident_bytes", job): 10.0}
    jobs = frame_of([node(counted=counted, gauges=gauges)]).jobs
    assert len(jobs) == 101
    (only,) = (job_row("007", seen([node(counted=counted, gauges=gauges)])),)
    assert only is not None
    assert only.read_bytes_per_s == pytest.approx(7000), "who asks for one is told of it"
    assert job_row("no-such-job", seen([node(counted=counted, gauges=gauges)])) is None
    assert [row.job for row in jobs[:2]] == ["249", "248"]
    assert jobs[-1].job == "150 others"
    assert sum(row.read_bytes_per_s or 0 for row in jobs) == pytest.approx(sum(range(250)) * 1000)
    assert (jobs[-1].processes, jobs[-1].memory_bytes) == (300, 1500.0)
    assert jobs[-1].cpus == pytest.approx(150 * 0.25)
    cleared: Counted = {("gridwright_job_read_bytes_total", "007"): 9e12}
    unknown = frame_of([node(counted=counted, gauges=gauges, before=cleared)]).jobs[-1]
    assert unknown.read_bytes_per_s is None, "a sum without a part of it would be too small"
    assert unknown.written_bytes_per_s is not None


def test_a_client_that_could_not_be_asked_is_told_with_the_reason() -> None:
    found = row(node(user=2.0, places=SERVED, silent={"/grid": "statistics are told to root only"}))
    assert found.standing is Standing.UNKNOWN
    assert found.note == "/grid of n1: statistics are told to root only"


def test_what_is_mounted_at_two_points_is_counted_once() -> None:
    """Both points of a bind mount, or of an NFS that is mounted twice, have the same counters."""
    other = {(*key[:1], "/bound", *key[2:]): rate for key, rate in mount(50 * MB).items()}
    places = {
        DATA.directory: MountedPlace("/grid", "nfs4", "", (), "0:52"),
        WORK.directory: MountedPlace("/bound", "nfs4", "", (), "0:52"),
    }
    sample = node(user=1.0, iowait=1.0, counted={**mount(50 * MB), **other}, places=places)
    one = row(sample, libraries=(DATA, WORK))
    assert one.read_bytes_per_s == pytest.approx(50 * MB)
    assert one.standing is Standing.BELOW
    work = WatchedLibrary("work", "scratch", WORK.directory, 100 * MB)
    two = frame_of([sample], [DATA, work]).libraries
    assert [each.standing for each in two] == [Standing.BELOW, Standing.BELOW]
    apart = {**places, WORK.directory: MountedPlace("/bound", "nfs4", "", (), "0:53")}
    sample = node(user=1.0, iowait=1.0, counted={**mount(50 * MB), **other}, places=apart)
    assert row(sample, libraries=(DATA, WORK)).read_bytes_per_s == pytest.approx(100 * MB)


@pytest.mark.parametrize(
    ("moved", "waits", "standing"),
    [
        (30 * MB, 0.06, Standing.NOT_ASKED),
        (150 * MB, 0.20, Standing.NOT_ASKED),
        (150 * MB, 0.80, Standing.BELOW),
        (20 * MB, 0.30, Standing.BELOW),
        (2 * MB, 0.06, Standing.NOT_ASKED),
        (201 * MB, 0.99, Standing.MET),
    ],
)
def test_who_computes_and_waits_a_little_is_not_held_up_by_storage(
    moved: float, waits: float, standing: Standing
) -> None:
    """Two busy cores; 100 MB/s are required of each. Strangers on CPUs make jobs move less and wait."""
    counted: Counted = {("node_pressure_io_waiting_seconds_total",): waits, **disk("md0", moved)}
    sample = node(user=2.0, counted=counted, places=ON_DISK)
    assert row(sample).standing is standing
    full = {**counted, **disk("sda", moved, busy=0.99)}
    assert row(node(user=2.0, counted=full, places=ON_DISK)).standing is (
        Standing.MET if standing is Standing.MET else Standing.BELOW
    ), "a disk that is full is a reason whoever waits how long"
