"""The picture: what is delivered against what is required, and what binds; and what would fool it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.history.measured import MINUTE, OTHERS, BusiestJobs, OpenMinute, family_of
from gridwright.monitor.job_rows import MOST_USERS, OF_USERS, OWNER, THERE, UNKNOWN, job_row, user_values
from gridwright.monitor.libraries import LibraryRow, Standing, WatchedLibrary
from gridwright.monitor.readings import (
    MountedPlace,
    NodeSamples,
    Reading,
    Snapshot,
    figures,
    rate_between,
    rates,
)
from gridwright.monitor.rows import seen
from gridwright.monitor.views import frame_text

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


# Rates out of counters: right where they can be told, and none where a counter or a clock did not go on.

COUNTS = st.integers(0, 2**63)
CLOCKS = st.floats(0, 1e9)
BYTES = "node_disk_read_bytes_total"


def reading(value: float, at_s: float, since_s: float | None = None, metric: str = BYTES) -> Reading:
    return Reading(metric, ("sda",), value, at_s, since_s)


def snapshot(*readings: Reading, machine: str = "boot") -> Snapshot:
    return Snapshot("n1", machine, 0.0, 0.0, 2, 2, readings)


@given(st.integers(0, 2**52), st.integers(0, 2**52), st.floats(0.01, 1e4), st.floats(0, 1e4))
def test_a_counter_that_goes_on_has_the_rate_that_it_moved_at(
    begun: int, moved: int, span: float, at: float
) -> None:
    old, new = reading(begun, at), reading(begun + moved, at + span)
    rate = rate_between(old, new)
    assert rate is not None
    assert abs(rate * (new.at_s - old.at_s) - moved) <= moved * 1e-9


@given(COUNTS, COUNTS, CLOCKS, CLOCKS)
def test_there_is_never_a_negative_or_an_endless_rate(one: int, other: int, at: float, then: float) -> None:
    rate = rate_between(reading(one, at), reading(other, then))
    assert rate is None or 0 <= rate < float("inf")
    assert rate is None or (other >= one and then > at)


@given(COUNTS, st.integers(1, 2**62), CLOCKS, st.floats(0.01, 1e3))
def test_a_counter_that_wrapped_or_was_cleared_has_no_rate(
    value: int, lost: int, at: float, span: float
) -> None:
    assert rate_between(reading(value + lost, at), reading(value, at + span)) is None


@given(COUNTS, COUNTS, CLOCKS, st.floats(0, 1e3))
def test_a_clock_that_stood_or_went_back_gives_no_rate(
    value: int, moved: int, at: float, back: float
) -> None:
    assert rate_between(reading(value, at), reading(value + moved, at - back)) is None


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.floats(0, 100), st.floats(101, 200))
def test_a_counter_that_began_anew_has_no_rate_even_if_it_is_larger_now(
    value: int, more: int, since: float, anew: float
) -> None:
    old, new = reading(value, 300.0, since), reading(value + more, 400.0, anew)
    assert rate_between(old, new) is None
    assert rate_between(old._replace(since_s=anew), new) is not None


def test_counters_of_another_boot_have_no_rates_and_gauges_stay() -> None:
    gauge = reading(8.0, 1.0, metric="node_memory_Dirty_bytes")
    before, after = snapshot(reading(10, 1.0)), snapshot(reading(20, 2.0), gauge, machine="another")
    assert figures(before, after).rates == {}
    assert figures(before, after).gauges == {("node_memory_Dirty_bytes", "sda"): 8.0}
    assert figures(before, replace(after, machine="boot")).rates == {(BYTES, "sda"): 10.0}


def test_what_is_new_has_no_rate_yet_and_what_is_gone_none_any_more() -> None:
    sdb = Reading(BYTES, ("sdb",), 5.0, 1.0)
    assert rates([reading(1, 1.0)], [sdb]) == {}


# However many jobs and users there are: few rows at each node, and sums by each counter that are exact.

READ, WRITTEN, CPU = (
    f"gridwright_job_{each}_total" for each in ("read_bytes", "written_bytes", "cpu_seconds")
)
NAMES = st.sampled_from([*"abcdefghij", OTHERS, UNKNOWN])
AMOUNTS = st.integers(0, 1 << 16).map(float)
SECONDS = st.lists(
    st.dictionaries(NAMES, st.tuples(AMOUNTS, NAMES | st.none(), st.integers(0, 5)), max_size=12),
    min_size=1,
    max_size=8,
)
"""Of each second: of each job what it moved, whose it is, and for how many seconds before that stands."""


def values_of(jobs: dict[str, tuple[float, str | None, int]]) -> list[tuple[tuple[str, ...], float, int]]:
    found: list[tuple[tuple[str, ...], float, int]] = []
    for job, (moved, user, back) in jobs.items():
        found += [((metric, job), moved, back) for metric in (READ, WRITTEN, CPU)] + [((THERE, job), 1.0, 0)]
        if user is not None:
            found.append(((OWNER, job, user), 1.0, 0))
    return found


@given(SECONDS, st.integers(1, 4), st.integers(1, 3))
def test_sums_by_counter_are_those_of_all_jobs_whoever_is_left_out(
    seconds: list[dict[str, tuple[float, str | None, int]]], most: int, every: int
) -> None:
    """At most so many and the sum of others, chosen anew every few seconds: names and users, each."""
    chooses, minute = BusiestJobs(most), OpenMinute(0)
    moved = jobs_there = 0.0
    for number, jobs in enumerate(seconds, start=5):
        values = values_of(jobs)
        kept = list(chooses.fold([*values, *user_values(values)], number // every))
        for metric in {key[0] for key, _, _ in kept}:
            labels = {key[1:] for key, _, _ in kept if key[0] == metric}
            assert len(labels) <= most + 1
        minute.put(number, kept)
        moved += sum(rate * (1 + back) for rate, _, back in jobs.values())
        jobs_there += len(jobs)
    told: dict[str, float] = defaultdict(float)
    for key, column in minute.columns.items():
        told[key[0]] += sum(each for each in column if each == each)  # noqa: PLR0124 - NaN is not itself
    filled = {back for jobs in seconds for _, _, back in jobs.values()}
    for metric, of_user in OF_USERS.items():
        assert told[of_user] == (jobs_there if metric == THERE else moved), of_user
        if filled <= {0}:
            assert told[metric] == (jobs_there if metric == THERE else moved), metric
    assert 5 + len(seconds) < MINUTE


@given(
    st.dictionaries(st.integers(0, 400), st.tuples(AMOUNTS, st.integers(0, 300)), min_size=1, max_size=300)
)
def test_users_of_a_picture_are_few_and_have_all_that_jobs_moved(jobs: dict[int, tuple[float, int]]) -> None:
    counted: Counted = {(READ, str(job)): moved for job, (moved, _) in jobs.items()}
    quiet: Counted = {(WRITTEN, str(job)): 0.0 for job in jobs}
    runs: Counted = {(CPU, str(job)): 1.0 for job in jobs}
    gauges: Counted = {(THERE, str(job)): 1.0 for job in jobs}
    owners: Counted = {(OWNER, str(job), f"u{user}"): 1.0 for job, (_, user) in jobs.items()}
    frame = frame_of([node(counted=counted | quiet | runs, gauges=gauges | owners)])
    assert len(frame.users) <= MOST_USERS + 1
    assert sum(row.jobs for row in frame.users) == len(jobs)
    for told in ("read_bytes_per_s", "cpus"):
        whole = sum(getattr(row, told) for row in frame.users)
        assert whole == pytest.approx(sum(getattr(row, told) for row in frame.jobs))


def test_a_user_is_told_over_all_nodes_and_a_job_on_two_of_them_counts_once() -> None:
    there: Counted = {(THERE, "17"): 2.0, (OWNER, "17", "ann"): 1.0}
    moved: Counted = {(READ, "17"): 10 * MB, (WRITTEN, "17"): 0.0, (CPU, "17"): 1.0}
    frame = frame_of([node("n1", counted=moved, gauges=there), node("n2", counted=moved, gauges=there)])
    (ann,) = frame.users
    assert (ann.user, ann.jobs) == ("ann", 1)
    assert ann.cpus == pytest.approx(2.0)
    assert ann.read_bytes_per_s == pytest.approx(20 * MB)


def test_what_one_job_does_not_tell_is_not_told_of_its_user() -> None:
    """Bytes of a process of another user are root's to see: the sum would be too small."""
    there: Counted = {(THERE, job): 1.0 for job in ("17", "18")} | {
        (OWNER, job, "ann"): 1.0 for job in ("17", "18")
    }
    moved: Counted = {(READ, "17"): 10 * MB, (CPU, "17"): 1.0, (CPU, "18"): 1.0}
    (ann,) = frame_of([node(counted=moved, gauges=there)]).users
    assert (ann.jobs, ann.read_bytes_per_s) == (2, None)
    assert ann.cpus == pytest.approx(2.0)


def test_whose_the_jobs_of_a_sum_are_is_one_series() -> None:
    """A thousand users of jobs and of processes that are left out are not a thousand series."""
    chooses = BusiestJobs(most=3)
    values = [((OWNER, f"{job}", f"u{job}"), 1.0, 0) for job in range(1000)]
    values += [(("gridwright_process_moved_bytes_total", "sh", f"u{user}"), 1.0, 0) for user in range(1000)]
    told = [(key, value) for key, value, _ in chooses.fold(values, 0)]
    assert len(told) == 2 * (3 + 1)
    assert ((OWNER, OTHERS, OTHERS), 997.0) in told
    family = family_of("gridwright_process_moved_bytes_total")
    assert family is not None
    assert family.name(("sh", "u1")) == ("sh", "u1")
