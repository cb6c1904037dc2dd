"""What disturbs a measurement and what does not, at each limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridwright.interference.judge import InterferenceLimits, disturbances, limits, table
from gridwright.runs.load_record import (
    DeviceLoad,
    ForeignProcess,
    NodeLoad,
    OtherRun,
    Pressure,
    Throttling,
)

QUIET = NodeLoad(
    seconds=10.0,
    cpus=4,
    busy_s=30.0,
    own_s=29.0,
    foreign_s=0.2,
    kernel_s=0.8,
    steal_s=0.0,
    memory_bytes=16 << 30,
    foreign_memory_bytes=1 << 30,
    machine="m",
    sees_all=True,
    sees_traffic=True,
)
BURNER = ForeignProcess("burner", "bob", 77, 4.4, 0, 1 << 20)
COPIER = ForeignProcess("rsync", "eve", 78, 0.1, 900_000_000, 1 << 20)
HOARDER = ForeignProcess("java Hog", "ann", 79, 0.1, 0, 6 << 30)


def test_a_node_that_works_for_us_alone_is_not_disturbed() -> None:
    assert disturbances(QUIET) == []


@pytest.mark.parametrize(("foreign_s", "found"), [(3.9, False), (4.4, True)])
def test_cpu_of_others_beyond_a_tenth_disturbs_and_names_the_busiest(foreign_s: float, found: bool) -> None:
    load = replace(QUIET, own_s=25.0, foreign_s=foreign_s, processes=[replace(BURNER, cpu_s=foreign_s)])
    assert [(each.kind, each.name, each.user) for each in disturbances(load)] == (
        [("cpu", "burner", "bob")] if found else []
    )
    if found:
        (one,) = disturbances(load)
        assert one.share == pytest.approx(0.11)
        assert "process burner of bob used 11 % of the CPU time" in one.text


def test_many_small_ones_disturb_together() -> None:
    load = replace(QUIET, foreign_s=8.0, processes=[replace(BURNER, cpu_s=2.0), replace(COPIER, cpu_s=1.5)])
    (one,) = disturbances(load)
    assert one.share == pytest.approx(0.2)
    assert one.text.endswith("used 5 % of the CPU time; with all others it is 20 %")


def test_the_resolution_of_the_clock_disturbs_nobody() -> None:
    load = replace(QUIET, seconds=0.05, cpus=2, busy_s=0.05, own_s=0.02, foreign_s=0.03, kernel_s=0.0)
    assert disturbances(load) == []


def test_in_a_container_the_work_of_those_outside_is_told_but_cannot_be_named() -> None:
    load = replace(QUIET, busy_s=39.0, own_s=10.0, kernel_s=0.0, sees_all=False)
    (one,) = disturbances(load)
    assert (one.kind, one.name) == ("cpu", "processes outside this container")


def test_sampling_errors_of_the_kernel_are_no_disturber() -> None:
    load = replace(QUIET, busy_s=35.0, own_s=30.5, foreign_s=0.2, kernel_s=1.0)
    assert disturbances(load) == []


@pytest.mark.parametrize(("steal_s", "found"), [(1.9, 0), (2.1, 1)])
def test_steal_is_the_hypervisors(steal_s: float, found: int) -> None:
    named = [(each.kind, each.name) for each in disturbances(replace(QUIET, steal_s=steal_s))]
    assert named == [("steal", "hypervisor")] * found


@pytest.mark.parametrize(("throttled", "found"), [(5, 0), (6, 1)])
def test_the_limit_of_a_control_group_is_named(throttled: int, found: int) -> None:
    load = replace(QUIET, throttling=Throttling("/docker/ab", 100, throttled, 1.0))
    assert [(each.kind, each.name) for each in disturbances(load)] == [("throttling", "/docker/ab")] * found


def device(own: int, foreign: int) -> DeviceLoad:
    return DeviceLoad("vda", own + foreign, 0, foreign, 0)


@pytest.mark.parametrize(
    ("own", "foreign", "found"),
    [
        (5_000_000_000, 400_000_000, 0),
        (5_000_000_000, 900_000_000, 1),
        # A log that grows while we do not touch the device.
        (0, 9_000_000, 0),
    ],
)
def test_traffic_of_others_on_the_device_disturbs(own: int, foreign: int, found: int) -> None:
    load = replace(QUIET, devices=[device(own, foreign)], processes=[COPIER])
    assert [(each.kind, each.name, each.user) for each in disturbances(load)] == [
        ("traffic", "rsync", "eve")
    ] * found


def test_who_may_not_ask_processes_still_tells_of_their_traffic_but_not_beside_small_files() -> None:
    load = replace(QUIET, devices=[device(10**9, 10**9)], sees_traffic=False)
    (one,) = disturbances(load)
    assert one.name == "unknown"
    assert "root can see which" in one.text
    assert disturbances(load, sequential=False) == []


def test_waiting_for_memory_is_others_doing_only_where_they_hold_it() -> None:
    waiting = replace(QUIET, pressure={"memory": Pressure(0.3, 0.1)})
    assert disturbances(waiting) == []
    (one,) = disturbances(replace(waiting, foreign_memory_bytes=8 << 30, processes=[HOARDER]))
    assert (one.kind, one.name, one.user) == ("memory", "java Hog", "ann")


def test_another_run_comes_first_with_its_host_and_user() -> None:
    other = OtherRun("20261122T1200Z-demo", "n2", "alice", "workload")
    found = disturbances(replace(QUIET, steal_s=20.0, runs=[other]))
    assert [each.kind for each in found] == ["run", "steal"]
    assert "workload 20261122T1200Z-demo of alice on n2" in found[0].text


def test_a_file_system_whose_other_runs_are_not_known_is_not_taken_for_a_quiet_one() -> None:
    (one,) = disturbances(replace(QUIET, unseen_runs="the look-out for them ended (exit status 1)"))
    assert (one.kind, one.name) == ("run", "unknown")
    assert one.text.endswith("is not known: the look-out for them ended (exit status 1)")


def test_every_limit_has_its_reason() -> None:
    rows = table()
    assert {row["name"] for row in rows} == set(InterferenceLimits.__slots__)
    assert all(row["unit"] and len(row["reason"]) > 40 for row in rows)
    assert limits().cpu == 0.1
