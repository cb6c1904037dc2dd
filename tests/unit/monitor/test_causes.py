"""What binds is a measured statement; and what would fool it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.filesystems.resources import OPERATIONS
from gridwright.model.chains import library_chain
from gridwright.model.grid import grid_model
from gridwright.monitor import sampler
from gridwright.monitor.causes.explaining import (
    SlowExplanation,
    explain,
    explain_job,
    foreign_cpus,
    is_slow,
    sharing_of,
    used_by,
)
from gridwright.monitor.causes.measured import STORAGE, ResourceSort, ResourceUse, StatedLimit
from gridwright.monitor.causes.model_limits import stated_limits
from gridwright.monitor.causes.words import explanation_text as printed
from gridwright.monitor.frame import frame_of
from gridwright.monitor.libraries import LibraryRow, Standing, WatchedLibrary
from gridwright.monitor.readings import LABELS, MountedPlace, NodeSamples
from gridwright.monitor.sampler import CardAllowances, allowance_places, statistic_names, statistic_values
from gridwright.monitor.views import frame_text
from gridwright.spec import load_spec
from tests.unit.monitor.test_frame import DATA, MB, ON_DISK, SERVED, Counted, disk, mount, node, row

NVME = {DATA.directory: MountedPlace("/grid", "xfs", "nvme0n1", ("nvme0n1",))}
LIMITED = ("gridwright_group_io_limit_bytes", "/job_17", "sda", "read")


def explanation_text(told: SlowExplanation) -> str:
    return " ".join(printed(told).split())


def binding(found: LibraryRow) -> list[ResourceSort]:
    return [each.sort for each in found.uses if each.binds and each.sort in STORAGE]


def use_of(found: LibraryRow, sort: ResourceSort) -> ResourceUse:
    return next(each for each in found.uses if each.sort is sort)


def in_flight(name: str, requests: float) -> Counted:
    return {("node_disk_io_time_weighted_seconds_total", name): requests}


def waits(target: str, reads: float, seconds_each: float) -> Counted:
    return {
        **mount(reads * MB, target),
        ("gridwright_mount_reads_total", "/grid", target): reads,
        ("gridwright_mount_writes_total", "/grid", target): 0.0,
        ("gridwright_mount_waited_seconds_total", "/grid", target): reads * seconds_each,
    }


def others(read: float, *, process: str = "backup", cpus: float = 0.0) -> Counted:
    return {
        ("gridwright_others_read_bytes_total",): read,
        ("gridwright_others_written_bytes_total",): 0.0,
        ("gridwright_others_cpu_seconds_total",): cpus,
        ("gridwright_process_moved_bytes_total", process, "root"): read,
        ("gridwright_process_cpu_seconds_total", process, "root"): cpus,
    }


SEES_ALL: Counted = {("gridwright_sees_all_processes",): 1.0}


def job(number: str, read: float, cpus: float = 0.2) -> Counted:
    return {
        ("gridwright_job_read_bytes_total", number): read,
        ("gridwright_job_written_bytes_total", number): 0.0,
        ("gridwright_job_cpu_seconds_total", number): cpus,
    }


def of_job(number: str, user: str = "alice") -> Counted:
    return {
        ("gridwright_job_processes", number): 1.0,
        ("gridwright_job_resident_bytes", number): 1.0,
        ("gridwright_job_user", number, user): 1.0,
    }


def test_an_nvme_disk_that_is_busy_all_the_time_may_have_room() -> None:
    alone = {**disk("nvme0n1", 50 * MB, busy=1.0), **in_flight("nvme0n1", 1.2)}
    found = row(node(iowait=1.0, counted=alone, places=NVME))
    assert (found.standing, binding(found)) == (Standing.BELOW, [])
    assert "may have room" in use_of(found, ResourceSort.DISK).text
    told = explain(frame_of([node(iowait=1.0, counted=alone, places=NVME)], [DATA]))
    assert told.slow
    assert any(
        "nothing that was measured on the nodes is at its limit" in each
        for each in told.filesystems[0].untold
    )
    crowded = {**disk("nvme0n1", 50 * MB, busy=1.0), **in_flight("nvme0n1", 60.0)}
    assert binding(row(node(iowait=1.0, counted=crowded, places=NVME))) == [ResourceSort.DISK]


def test_an_ssd_that_does_not_rotate_is_as_nvme_and_one_that_says_nothing_is_not() -> None:
    full = {**disk("sda", 50 * MB, busy=1.0), **in_flight("sda", 2.0), **disk("md0", 50 * MB)}
    still: Counted = {("gridwright_disk_rotational", "sda"): 0.0}
    assert binding(row(node(iowait=1.0, counted=full, gauges=still, places=ON_DISK))) == []
    assert binding(row(node(iowait=1.0, counted=full, places=ON_DISK))) == [ResourceSort.DISK]


def test_an_array_is_judged_by_its_members() -> None:
    busy = {**disk("md0", 50 * MB, busy=1.0), **disk("sda", 50 * MB, busy=0.3)}
    assert binding(row(node(iowait=1.0, counted=busy, places=ON_DISK))) == []


def test_a_limit_of_a_control_group_binds_where_its_processes_are_at_it_and_only_on_this_disk() -> None:
    slow = {**disk("md0", 4 * MB), **disk("sda", 4 * MB, busy=0.02)}
    moved = ("gridwright_group_io_bytes_total", *LIMITED[1:])
    at_limit = node(iowait=1.0, counted={**slow, moved: 3.9 * MB}, gauges={LIMITED: 4 * MB}, places=ON_DISK)
    assert binding(row(at_limit)) == [ResourceSort.GROUP]
    assert (
        "control group /job_17 of n1 may have 4 MB/s read from sda, and has 3.90 MB/s" in row(at_limit).binds
    )
    below = node(iowait=1.0, counted={**slow, moved: 1 * MB}, gauges={LIMITED: 4 * MB}, places=ON_DISK)
    assert binding(row(below)) == []
    elsewhere = ("gridwright_group_io_limit_bytes", "/job_17", "sdz", "read")
    other = node(
        iowait=1.0,
        counted={**slow, ("gridwright_group_io_bytes_total", *elsewhere[1:]): 3.9 * MB},
        gauges={elsewhere: 4 * MB},
        places=ON_DISK,
    )
    assert binding(row(other)) == []


@pytest.mark.parametrize(("moved_mb", "request_mb", "binds"), [
    (3.1, 1.0, True), (2.9, 1.0, False), (3.1, 0.1, False), (1.9, 8.0, False), (3.9, 0.1, True),
])  # fmt: skip
def test_a_group_within_one_request_of_its_limit_is_at_it(
    moved_mb: float, request_mb: float, binds: bool
) -> None:
    told = {
        **disk("md0", 4 * MB), **disk("sda", 4 * MB, busy=0.02),
        ("node_disk_reads_completed_total", "sda"): 4 / request_mb,
        ("gridwright_group_io_bytes_total", *LIMITED[1:]): moved_mb * MB,
    }  # fmt: skip
    found = row(node(iowait=1.0, counted=told, gauges={LIMITED: 4 * MB}, places=ON_DISK, seconds=1.0))
    assert binding(found) == ([ResourceSort.GROUP] if binds else [])


def test_a_queue_limits_what_a_card_sends_and_not_what_it_receives() -> None:
    def card(received: float, sent: float) -> Counted:
        return {
            ("node_network_receive_bytes_total", "eth0"): received,
            ("node_network_transmit_bytes_total", "eth0"): sent,
            **mount(50 * MB),
        }

    limit: Counted = {
        ("node_network_speed_bytes", "eth0"): 1250 * MB,
        ("gridwright_network_limit_bytes", "eth0"): 100 * MB,
    }
    sends = row(node(iowait=1.0, counted=card(1 * MB, 97 * MB), gauges=limit, places=SERVED))
    assert binding(sends) == [ResourceSort.CARD]
    assert sends.binds == ("card eth0 of n1 sends 97% of the 100 MB/s that its queue lets through",)
    assert binding(row(node(iowait=1.0, counted=card(97 * MB, 1 * MB), gauges=limit, places=SERVED))) == []


def test_one_slow_target_of_many_is_named_and_a_busy_one_that_answers_is_not() -> None:
    alike = {**waits("OST0", 50, 0.02), **waits("OST1", 50, 0.02), **waits("OST2", 50, 0.02)}
    slow = {**alike, **waits("OST3", 5, 0.4)}
    found = row(node(iowait=1.0, counted=slow, places=SERVED))
    assert binding(found) == [ResourceSort.TARGET]
    assert "requests to target OST3 take 400 ms, and 20 ms to the 3 others in the middle" in found.binds[0]
    hot = {**alike, **waits("OST3", 300, 0.02)}
    (told,) = [each for each in row(node(iowait=1.0, counted=hot, places=SERVED)).uses if each.binds]
    assert told.sort is ResourceSort.SERVER, "requests wait for servers, and no target is slower than others"
    few = {**waits("OST0", 50, 0.02), **waits("OST1", 50, 0.4)}
    assert binding(row(node(iowait=1.0, counted=few, places=SERVED))) == [ResourceSort.SERVER]
    pings = {**alike, **waits("OST3", 0.1, 2.0)}
    assert ResourceSort.TARGET not in binding(row(node(iowait=1.0, counted=pings, places=SERVED)))


def test_clients_whose_own_card_is_full_do_not_accuse_the_servers() -> None:
    card: Counted = {
        ("node_network_receive_bytes_total", "eth0"): 1240 * MB,
        ("node_network_transmit_bytes_total", "eth0"): 0.0,
    }
    speed: Counted = {("node_network_speed_bytes", "eth0"): 1250 * MB}
    served = {**waits("OST0", 100, 0.1), **card}
    assert binding(row(node(iowait=4.0, counted=served, gauges=speed, places=SERVED))) == [ResourceSort.CARD]


def limited(scope: str, rate: float, *, burst: float | None = None, read: float = 1.0) -> WatchedLibrary:
    limit = StatedLimit("nfs.server-read", "NFS server", scope, rate, "the grid spec", read, 0.0, burst)
    return WatchedLibrary("data", "disk", DATA.directory, 100 * MB, (limit,))


def test_a_limit_of_the_model_binds_where_all_clients_together_reach_it() -> None:
    both = [node(each, iowait=3.0, counted=mount(240 * MB), places=SERVED) for each in ("n1", "n2")]
    full = row(*both, libraries=(limited("grid", 500 * MB),))
    assert binding(full) == [ResourceSort.STATED]
    stated = use_of(full, ResourceSort.STATED)
    assert stated.part == pytest.approx(0.96)
    assert stated.capacity_source == "the grid spec"
    assert binding(row(*both, libraries=(limited("grid", 900 * MB),))) == []
    # Each byte that passes it twice takes twice as much of it.
    assert binding(row(*both, libraries=(limited("grid", 1000 * MB, read=2.0),))) == [ResourceSort.STATED]
    mine = replace(limited("node", 250 * MB).limits[0], nodes=("n2",))
    only = row(*both, libraries=(replace(limited("grid", 1.0), limits=(mine,)),))
    assert [each.node for each in only.uses if each.sort is ResourceSort.STATED] == ["n2"]
    each_node = row(*both, libraries=(limited("node", 250 * MB),))
    assert [each.node for each in each_node.uses if each.sort is ResourceSort.STATED] == ["n1", "n2"]


def test_a_statement_that_is_too_low_is_no_limit() -> None:
    sample = node(iowait=6.0, counted=mount(600 * MB), places=SERVED)
    found = row(sample, libraries=(limited("grid", 500 * MB),))
    assert binding(found) == []
    assert "more than it is said to deliver" in use_of(found, ResourceSort.STATED).text


def test_a_burst_that_is_spent_binds_at_the_lasting_rate() -> None:
    def at(rate: float) -> LibraryRow:
        sample = node(iowait=6.0, counted=mount(rate), places=SERVED)
        return row(sample, libraries=(limited("grid", 250 * MB, burst=1000 * MB),))

    assert binding(at(245 * MB)) == [ResourceSort.STATED]
    assert "when its burst is spent" in at(245 * MB).binds[0]
    assert binding(at(500 * MB)) == []
    assert binding(at(960 * MB)) == [ResourceSort.STATED]


def test_a_stranger_that_is_held_back_on_purpose_makes_nothing_slow_where_jobs_are_known_not_to_wait() -> (
    None
):
    counted = {
        **disk("md0", 4 * MB),
        **disk("sda", 4 * MB, busy=0.1),
        ("gridwright_group_io_bytes_total", *LIMITED[1:]): 3.9 * MB,
        **job("17", 0.0, cpus=4.0),
    }

    def standing(**waited: float) -> Standing:
        waits_of_jobs: Counted = {
            ("gridwright_job_waiting_seconds_total", "17", how): rate for how, rate in waited.items()
        }
        gauges = {LIMITED: 4 * MB, **of_job("17")}
        sample = node(
            user=4.0, iowait=1.0, counted={**counted, **waits_of_jobs}, gauges=gauges, places=ON_DISK
        )
        return row(sample).standing

    assert standing(pressure=0.01) is Standing.NOT_ASKED
    assert standing(pressure=0.6) is Standing.BELOW
    assert standing(state=0.0) is Standing.BELOW, "a state that is looked at now and then proves nothing"
    assert standing() is Standing.BELOW


def test_two_causes_at_once_are_both_told() -> None:
    slow = {**disk("md0", 4 * MB), **disk("sda", 4 * MB, busy=0.99)}
    moved = ("gridwright_group_io_bytes_total", *LIMITED[1:])
    found = row(node(iowait=1.0, counted={**slow, moved: 3.9 * MB}, gauges={LIMITED: 4 * MB}, places=ON_DISK))
    assert set(binding(found)) == {ResourceSort.GROUP, ResourceSort.DISK}


def test_steal_and_a_limit_of_cpu_time_are_told_and_are_no_storage() -> None:
    counted = {
        **disk("md0", 4 * MB),
        ("node_cpu_seconds_total", "steal"): 1.0,
        ("gridwright_group_periods_total", "/job_17"): 10.0,
        ("gridwright_group_throttled_periods_total", "/job_17"): 6.0,
    }
    found = row(node(user=2.0, counted=counted, places=ON_DISK))
    assert binding(found) == []
    assert found.standing is Standing.NOT_ASKED
    assert sorted(each.sort for each in found.uses if each.binds) == [ResourceSort.CPU, ResourceSort.STEAL]
    assert "stopped processes in 60% of its periods" in " ".join(found.binds)


WORK = WatchedLibrary("work", "fast", "/fast/work", 100 * MB)
BOTH = {**ON_DISK, WORK.directory: MountedPlace("/fast", "xfs", "nvme0n1", ("nvme0n1",))}


def two(slow_rate: float, fast_rate: float, slow_wait: float, fast_wait: float) -> list[LibraryRow]:
    counted = {
        **disk("md0", slow_rate),
        **in_flight("md0", slow_wait),
        **disk("nvme0n1", fast_rate),
        **in_flight("nvme0n1", fast_wait),
    }
    sample = node(iowait=1.5, counted=counted, places=BOTH, user=0.5)
    return list(frame_of([sample], [DATA, WORK]).libraries)


def test_a_file_system_that_nobody_waits_for_is_not_slow_because_another_one_is() -> None:
    slow, idle = two(20 * MB, 1 * MB, 2.0, 0.0)
    assert (slow.standing, idle.standing) == (Standing.BELOW, Standing.NOT_ASKED)


def test_cores_that_work_with_two_file_systems_are_no_cores_twice() -> None:
    one, other = two(130 * MB, 130 * MB, 1.0, 1.0)
    assert (one.standing, other.standing) == (Standing.MET, Standing.MET)
    # One that gives more than is required does not hide that the other one is slow.
    slow, fast = two(20 * MB, 500 * MB, 1.0, 1.0)
    assert (slow.standing, fast.standing) == (Standing.BELOW, Standing.MET)


def test_what_is_not_required_is_slow_only_where_something_is_at_its_limit() -> None:
    free = WatchedLibrary("data", "disk", DATA.directory, None)
    waiting = node(iowait=3.0, counted=disk("md0", 20 * MB), places=ON_DISK)
    assert is_slow(row(waiting, libraries=(free,))) is None
    full = {**disk("md0", 20 * MB), **disk("sda", 20 * MB, busy=0.97)}
    assert is_slow(row(node(iowait=3.0, counted=full, places=ON_DISK), libraries=(free,))) is True
    assert is_slow(row(node(user=3.0, counted=full, places=ON_DISK), libraries=(free,))) is False, (
        "nobody waits"
    )
    calm = node(user=3.0, counted=disk("md0", 20 * MB), places=ON_DISK)
    assert is_slow(row(calm, libraries=(free,))) is False


@pytest.mark.parametrize(
    "sample",
    [
        node(user=8.0, counted=disk("md0", 5 * MB, busy=0.2), places=ON_DISK),
        node(user=0.02, counted=disk("md0", 1000.0, busy=0.01), places=ON_DISK),
        node(user=2.0, iowait=0.5, counted=disk("md0", 300 * MB, busy=0.8), places=ON_DISK),
        node(user=0.01, places={DATA.directory: MountedPlace("/grid", "fuse.x", "", ())}),
    ],
    ids=["jobs compute", "idle", "met", "nobody works"],
)
def test_nothing_is_slow_where_all_is_well(sample: NodeSamples) -> None:
    told = explain(frame_of([sample], [DATA]))
    assert (told.slow, told.is_complete, told.evidence) == (False, True, ())
    assert "nothing is slow" in explanation_text(told)


def test_a_cpu_bound_client_of_a_served_file_system_is_told_by_its_cpus() -> None:
    sample = node(user=7.9, counted=waits("OST0", 10, 0.002), places=SERVED)
    told = explain(frame_of([sample], [DATA]))
    assert not told.slow
    assert [each.name for each in told.cpus] == ["CPUs of n1"]


def test_a_counter_that_began_anew_makes_it_cannot_tell_and_not_slow() -> None:
    cleared = node(
        user=2.0, iowait=1.0, counted=disk("md0", 1 * MB), places=ON_DISK,
        before={("node_disk_read_bytes_total", "md0"): 9e12},
    )  # fmt: skip
    told = explain(frame_of([cleared], [DATA]))
    assert (told.slow, told.is_complete) == (False, False)
    assert "cannot tell whether it is slow" in explanation_text(told)


def test_a_node_that_is_away_is_told_and_the_others_are_judged() -> None:
    slow = {**disk("md0", 5 * MB), **disk("sda", 5 * MB, busy=0.97)}
    samples = [
        node(iowait=2.0, counted=slow, places=ON_DISK),
        NodeSamples("n2", absent="no answer in time"),
    ]
    told = explain(frame_of(samples, [DATA]))
    assert (told.slow, told.is_complete, told.away) == (True, False, {"n2": "no answer in time"})
    assert "n2 is away: no answer in time" in explanation_text(told)


def shared(counted: Counted, gauges: Counted) -> LibraryRow:
    return row(node(iowait=2.0, counted=counted, gauges=gauges, places=ON_DISK))


def test_what_a_stranger_moves_is_foreign_and_what_jobs_move_is_not() -> None:
    counted = {**disk("md0", 100 * MB), **job("17", 30 * MB), **others(70 * MB)}
    gauges = {**of_job("17"), **SEES_ALL}
    sample = node(iowait=2.0, counted=counted, gauges=gauges, places=ON_DISK)
    frame = frame_of([sample], [DATA])
    found = sharing_of(frame.libraries[0], frame)
    assert found.disturbs
    assert found.foreign_bytes_per_s == pytest.approx(68.5 * MB), "5 % of what jobs move may be journals"
    assert [(each.name, each.user, each.is_job) for each in found.sharers] == [
        ("backup", "root", False),
        ("17", "alice", True),
    ]
    assert dict(found.users) == pytest.approx({"root": 0.7, "alice": 0.3})
    assert "foreign load: at least 68.5 MB/s" in explanation_text(explain(frame))


def test_strangers_that_moved_little_do_not_get_the_rest_that_a_job_which_ended_had() -> None:
    counted = {**disk("md0", 100 * MB), **job("17", 30 * MB), **others(0.1 * MB)}
    sample = node(iowait=2.0, counted=counted, gauges={**of_job("17"), **SEES_ALL}, places=ON_DISK)
    frame = frame_of([sample], [DATA])
    assert not sharing_of(frame.libraries[0], frame).disturbs
    # From within a container others cannot be asked.
    hidden = node(iowait=2.0, counted=counted, gauges=of_job("17"), places=ON_DISK)
    frame = frame_of([hidden], [DATA])
    found = sharing_of(frame.libraries[0], frame)
    assert found.disturbs
    assert found.unseen_bytes_per_s > 60 * MB
    assert "processes that cannot be seen from the nodes" in explanation_text(explain(frame))


def test_what_was_written_earlier_is_nobodys_load_now() -> None:
    written: Counted = {("node_disk_written_bytes_total", "md0"): 80 * MB}
    counted = {**disk("md0", 0.0), **written, **others(0.0)}
    dirty = ("node_memory_Dirty_bytes",)
    sample = node(counted=counted, gauges={dirty: 1e9}, before={dirty: 1e9 + 170 * MB}, places=ON_DISK)
    frame = frame_of([sample], [DATA])
    assert not sharing_of(frame.libraries[0], frame).disturbs
    steady = node(counted=counted, gauges={dirty: 1e9}, before={dirty: 1e9}, places=ON_DISK)
    frame = frame_of([steady], [DATA])
    assert sharing_of(frame.libraries[0], frame).disturbs


def test_without_root_what_others_moved_is_not_told() -> None:
    moved = {**disk("md0", 100 * MB), **job("17", 30 * MB)}
    alone = frame_of([node(iowait=2.0, counted=moved, gauges=of_job("17"), places=ON_DISK)], [DATA])
    found = sharing_of(alone.libraries[0], alone)
    assert (found.disturbs, found.foreign_bytes_per_s) == (False, None)
    assert found.untold == "what processes of no job moved is not known of all nodes (root can see it)"
    before: Counted = {("gridwright_job_read_bytes_total", "17"): 9e12}
    counted = {**moved, **others(50 * MB)}
    some = node(iowait=2.0, counted=counted, gauges=of_job("17"), before=before, places=ON_DISK)
    frame = frame_of([some], [DATA])
    found = sharing_of(frame.libraries[0], frame)
    assert (found.disturbs, found.foreign_bytes_per_s) == (False, None)
    assert found.untold == "what some jobs moved cannot be told (root can see it)"


def oss(read: float, written: float = 0.0) -> NodeSamples:
    """A server of OST0, which is no client."""
    counted: Counted = {
        ("lustre_read_bytes_total", "ost", "read", "OST0"): read,
        ("lustre_write_bytes_total", "ost", "write", "OST0"): written,
    }
    return node("oss1", counted=counted)


def test_what_servers_move_for_clients_that_are_not_of_the_grid_is_foreign_load() -> None:
    client = node(iowait=1.0, counted=waits("OST0", 50, 0.1), places=SERVED)
    shared = frame_of([client, oss(200 * MB)], [DATA])
    found = sharing_of(shared.libraries[0], shared)
    assert found.is_used_elsewhere
    assert found.elsewhere_bytes_per_s == pytest.approx(150 * MB)
    assert "clients that are not of the grid have 150 MB/s, 75% of" in explanation_text(explain(shared))
    own = frame_of([client, oss(51 * MB)], [DATA])
    assert not sharing_of(own.libraries[0], own).is_used_elsewhere
    unknown = frame_of([client], [DATA])
    assert sharing_of(unknown.libraries[0], unknown).elsewhere_bytes_per_s is None
    assert "not all of these were asked (--servers)" in explanation_text(explain(unknown))


def test_processes_of_no_job_that_take_cpus_are_named() -> None:
    counted = {**disk("md0", 1 * MB), **others(0.0, process="indexer", cpus=2.0)}
    frame = frame_of([node(user=2.5, counted=counted, places=ON_DISK)], [DATA])
    (told,) = foreign_cpus(frame)
    assert (told.process, told.user) == ("indexer", "root")
    assert told.share == pytest.approx(0.25)
    assert "most of all indexer of root" in explanation_text(explain(frame))
    quiet = {**disk("md0", 1 * MB), **others(0.0, cpus=0.5)}
    assert foreign_cpus(frame_of([node(user=2.5, counted=quiet, places=ON_DISK)], [DATA])) == []


@pytest.mark.parametrize(
    ("cpus", "cores", "waiting", "slow", "held_up", "words"),
    [
        (3.9, 4, 0.1, ["disk"], False, "it computes"),
        (0.2, 4, None, ["disk"], True, "disk is slow"),
        (0.2, 4, 0.8, ["disk"], True, "waits for I/O in 80% of the time, and disk is slow"),
        (0.2, 4, 0.0, ["disk"], None, "no file system holds it up"),
        (0.2, 4, 0.8, [], None, "one thing after the other"),
        (0.01, 4, 0.0, [], None, "it sleeps, or waits for something that is not storage"),
        (1.0, 4, None, [], None, "fewer threads than cores"),
        (2.0, None, None, [], False, "it computes"),
    ],
)
def test_a_job_is_held_up_by_storage_only_where_its_file_system_is_slow_and_it_waits(
    cpus: float, cores: int | None, waiting: float | None, slow: list[str], held_up: bool | None, words: str
) -> None:
    counted = {**disk("md0", 1 * MB), **job("17", 1 * MB, cpus=cpus)}
    frame = frame_of([node(counted=counted, gauges=of_job("17"), places=ON_DISK)], [DATA])
    told = explain_job(replace(frame.jobs[0], waiting=waiting), cores, frame, slow)
    assert told.held_up is held_up
    assert words in told.text


def test_a_job_is_looked_at_with_the_file_systems_that_it_has_open() -> None:
    opened: Counted = {**of_job("17"), ("gridwright_job_open_files", "17", WORK.directory): 2.0}
    frame = frame_of([node(counted=job("17", 1.0), gauges=opened, places=BOTH)], [DATA, WORK])
    assert used_by(frame.jobs[0], frame) == ["fast"]
    unknown = frame_of([node(counted=job("17", 1.0), gauges=of_job("17"), places=BOTH)], [DATA, WORK])
    assert used_by(unknown.jobs[0], unknown) is None


def test_a_job_whose_own_limit_of_cpu_time_stops_it_is_told_so() -> None:
    counted = {
        **disk("md0", 1 * MB),
        **job("17", 1 * MB, cpus=1.0),
        ("gridwright_group_periods_total", "/slurm/job_17"): 10.0,
        ("gridwright_group_throttled_periods_total", "/slurm/job_17"): 9.0,
    }
    frame = frame_of([node(counted=counted, gauges=of_job("17"), places=ON_DISK)], [DATA])
    told = explain_job(frame.jobs[0], 4, frame, [])
    assert told.held_up is True
    assert "control group /slurm/job_17" in told.text
    other = explain_job(replace(frame.jobs[0], job="1"), 4, frame, [])
    assert other.held_up is None


def test_two_file_systems_on_one_disk_do_not_lend_each_other_its_bytes() -> None:
    """Half of what is required is not all of it because the disk's bytes are seen in both."""
    on_one = {**NVME, WORK.directory: MountedPlace("/work", "xfs", "nvme0n1", ("nvme0n1",))}
    work = replace(WORK, filesystem="scratch", required=100 * MB)
    counted = {**disk("nvme0n1", 50 * MB, busy=1.0), **in_flight("nvme0n1", 1.0)}
    rows = frame_of([node(iowait=1.0, counted=counted, places=on_one)], [DATA, work]).libraries
    assert [each.standing for each in rows] == [Standing.BELOW, Standing.BELOW]
    enough = {**disk("nvme0n1", 100 * MB, busy=1.0), **in_flight("nvme0n1", 1.0)}
    rows = frame_of([node(iowait=1.0, counted=enough, places=on_one)], [DATA, work]).libraries
    assert [each.standing for each in rows] == [Standing.MET, Standing.MET]


def test_one_job_that_waits_on_a_node_of_many_cpus_is_somebody_where_no_pressure_is_told() -> None:
    """RHEL starts without pressure (psi=0): one of its 8 CPUs that waits is all that can be seen."""
    waits_alone = node(iowait=0.3, user=0.05, counted=disk("md0", 3 * MB), places=ON_DISK)
    assert (row(waits_alone).standing, is_slow(row(waits_alone))) == (Standing.BELOW, True)
    computes = node(iowait=0.06, user=3.9, counted=disk("md0", 3 * MB), places=ON_DISK)
    assert row(computes).standing is Standing.NOT_ASKED
    calm: Counted = {**disk("md0", 3 * MB), ("node_pressure_io_waiting_seconds_total",): 0.01}
    assert row(node(iowait=0.3, user=0.05, counted=calm, places=ON_DISK)).standing is Standing.NOT_ASKED


def test_a_job_that_sleeps_beside_one_that_waits_is_not_held_up_by_its_file_system() -> None:
    waiting: Counted = {("gridwright_job_waiting_seconds_total", "17", "state"): 0.0}
    counted = {**disk("md0", 1 * MB), **job("17", 0.0, cpus=0.01), **waiting}

    def held_up(more: Counted, gauges: Counted) -> bool | None:
        sample = node(counted={**counted, **more}, gauges={**of_job("17"), **gauges}, places=ON_DISK)
        frame = frame_of([sample], [DATA])
        return explain_job(frame.jobs[0], 4, frame, ["disk"]).held_up

    assert held_up({}, {}) is None
    assert held_up({("gridwright_job_read_bytes_total", "17"): 5000.0}, {}) is True
    assert held_up({("gridwright_job_waiting_seconds_total", "17", "state"): 0.5}, {}) is True
    assert held_up({}, {("gridwright_job_open_files", "17", DATA.directory): 1.0}) is True, (
        "a mount that hangs"
    )


def test_who_uses_the_file_system_of_a_job_is_told_of_all_nodes() -> None:
    """Nodes of one machine have one disk: what a job on the other one moves is no stranger's."""
    both = disk("md0", 40 * MB)
    one = node(
        "n1",
        machine="m",
        counted={**both, **job("17", 10 * MB), **others(0.0)},
        gauges=of_job("17"),
        iowait=2.0,
        places=ON_DISK,
    )
    two = node(
        "n2",
        machine="m",
        counted={**both, **job("18", 30 * MB), **others(0.0)},
        gauges=of_job("18"),
        places=ON_DISK,
    )
    whole = frame_of([one, two], [DATA])
    (told,) = explain(frame_of([one], [DATA]), whole=whole).filesystems
    assert [each.name for each in told.sharing.sharers] == ["18", "17"]
    assert (told.sharing.disturbs, told.sharing.foreign_bytes_per_s) == (False, 0.0)


def test_names_of_anybody_command_no_terminal() -> None:
    """Who may start a process names its job; root looks at it."""
    hostile = "17\x1b]0;owned\x07\x1b[2J\r\n\u202e"
    counted = {
        **disk("md0", 20 * MB),
        **job(hostile, 20 * MB),
        **others(9 * MB, process="evil\x1b[31m\x9b1m"),
    }
    frame = frame_of(
        [
            node(
                iowait=2.0,
                counted=counted,
                gauges={**SEES_ALL, **of_job(hostile, "al\x1bice")},
                places=ON_DISK,
            )
        ],
        [DATA],
    )
    for text in (frame_text(frame), explanation_text(explain(frame))):
        assert "17" in text
        assert text.replace("\n", "").isprintable()


# Packets that a cloud holds back are read from the cards that count them, and bind what they carry.

ENA = ["tx_timeout", "bw_in_allowance_exceeded", "bw_out_allowance_exceeded", "pps_allowance_exceeded",
       "conntrack_allowance_exceeded", "queue_0_tx_cnt"]  # fmt: skip
"""In the order of drivers/net/ethernet/amazon/ena/ena_ethtool.c."""


def test_the_statistics_of_a_real_card_are_read_as_ethtool_reads_them() -> None:
    found = {}
    for each in Path("/sys/class/net").iterdir():
        try:
            names = statistic_names(each.name)
        except OSError:
            continue
        values = statistic_values(each.name, len(names)) if names else ()
        found[each.name] = dict(zip(names, values, strict=True))
    assert all(name and value >= 0 for card in found.values() for name, value in card.items())
    with pytest.raises(OSError, match="No such device"):
        statistic_names("no-such-card")


def test_only_cards_that_count_allowances_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("eth0", "eth1"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    monkeypatch.setattr(sampler, "statistic_names", {"eth0": ENA, "eth1": ["rx_drops"]}.__getitem__)
    monkeypatch.setattr(sampler, "statistic_values", lambda _device, count: tuple(range(count)))
    told = {each.labels: each.value for each in CardAllowances(tmp_path).readings()}
    assert told == {("eth0", "bw_in"): 1, ("eth0", "bw_out"): 2, ("eth0", "pps"): 3, ("eth0", "conntrack"): 4}
    assert LABELS["gridwright_network_held_back_packets_total"] == ("device", "allowance")
    assert allowance_places(["rx_drops"]) == {}


def held_back(rate: float, allowance: str = "bw_in") -> Counted:
    return {("gridwright_network_held_back_packets_total", "eth0", allowance): rate}


def test_a_network_that_its_cloud_holds_back_binds_what_servers_serve_and_no_local_disk() -> None:
    served = row(node(iowait=2.0, counted={**waits("OST0", 50, 0.1), **held_back(900.0)}, places=SERVED))
    assert binding(served) == [ResourceSort.ALLOWANCE], "and servers are not accused"
    assert "the cloud held back 900 packets/s of card eth0 of n1, which has used up what it may receive" in (
        served.binds
    )
    for calm in (held_back(0.0), held_back(3.0), held_back(900.0, "conntrack")):
        found = row(node(iowait=2.0, counted={**waits("OST0", 50, 0.1), **calm}, places=SERVED))
        assert binding(found) == [ResourceSort.SERVER]
    local = {**disk("md0", 1e6), **held_back(900.0)}
    assert binding(row(node(iowait=2.0, counted=local))) == []


# Limits that are held against what is measured are those of predictions, with the same figures.

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["aws-fsx", "aws-lustre", "oci-lustre", "azure-netapp-files"])
def test_each_limit_of_a_prediction_is_there_with_its_figure(name: str) -> None:
    spec = load_spec(EXAMPLES / f"{name}.yaml")
    model, found = grid_model(spec), stated_limits(spec)
    assert found
    for library, placed in model.libraries.items():
        limits = {each.resource: each for each in found[placed.filesystem]}
        for operation in OPERATIONS:
            chain = [each for each in library_chain(model, library, operation) if each.resource != "streams"]
            assert len(chain) > 0
            for bound in chain:
                limit = limits[bound.resource]
                nodes = model.nodes if limit.scope == "node" else 1
                taken = limit.read if operation == "read" else limit.write
                assert limit.bytes_per_s * nodes / taken == pytest.approx(bound.bytes_per_s)
                assert (limit.what, limit.source) == (bound.what, bound.source)
                assert limit.nodes == (), "all nodes are alike"


def test_groups_of_nodes_have_limits_of_their_own(tmp_path: Path) -> None:
    found = stated_limits(load_spec(EXAMPLES / "aws-elastic.yaml"))["shared"]
    of_nodes = {each.resource: each.nodes for each in found if each.scope == "node"}
    assert of_nodes["compute.node.network-in"][0] == "compute1"
    assert of_nodes["cheap.node.network-in"][0] == "cheap1"
    assert [each.resource for each in found].count("shared.throughput") == 1


def test_a_grid_of_which_nothing_is_known_has_none() -> None:
    assert set(stated_limits(load_spec(EXAMPLES / "lab.yaml")).values()) == {()}
