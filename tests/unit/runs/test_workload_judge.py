"""What a run of the workload is judged by; every test tries to get a flattering verdict."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.workload_judge import WorkloadNeeds, judge_workload, met_by, ratio_of
from tests.support.records import launch_record


def launch(real: float, cpu: float, **own: Any) -> LaunchRecord:
    return launch_record(1, real_s=real, user_s=cpu, system_s=0.0, **own)


def waiting(wait_s: float, moved: int, real: float = 100.0) -> LaunchRecord:
    traffic = {"data": LibraryTraffic(read_bytes=moved, read_wait_s=wait_s)}
    return launch(real, real - wait_s, libraries=traffic)


def test_many_short_launches_do_not_hide_a_long_one_that_waits() -> None:
    launches = [launch(1.0, 1.0)] * 99 + [launch(1000.0, 100.0)]
    assert ratio_of(launches) == pytest.approx(199 / 1099)


def test_a_long_launch_does_not_hide_many_that_wait() -> None:
    launches = [launch(1000.0, 1000.0)] + [launch(1.0, 0.1)] * 9
    assert ratio_of(launches) == pytest.approx(0.19)


def test_launches_on_several_cores_do_not_make_up_for_others() -> None:
    assert ratio_of([launch(100.0, 380.0), launch(100.0, 20.0)]) == pytest.approx(0.6)


def test_nothing_launched_is_no_ratio() -> None:
    needs = WorkloadNeeds(ratio=0.5, tests={"absent": 0.5})
    found = judge_workload(needs, [], None, None)
    assert [(each.measured, each.met) for each in found] == [(None, None), (None, None)]
    assert met_by(found) is None


@pytest.mark.parametrize(("limit", "met"), [(59.0, False), (60.0, True)])
def test_the_time_of_the_whole_matrix(limit: float, met: bool) -> None:
    (found,) = judge_workload(WorkloadNeeds(real_s=limit), [launch(60, 60)], 60.0, 1.0)
    assert found.met is met


def test_one_test_is_judged_by_its_own_launches() -> None:
    launches = [launch(10.0, 10.0), launch_record(2, "slow", real_s=10.0, user_s=1.0, system_s=0.0)]
    found = judge_workload(WorkloadNeeds(tests={"slow": 0.5}), launches, 20.0, 1.0)
    assert [(each.of, each.met) for each in found] == [("slow", False)]
    assert found[0].measured == pytest.approx(0.1)


def test_a_library_that_was_waited_for_and_gave_less_is_missed() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    (found,) = judge_workload(needs, [waiting(84.0, 840_000_000)], 100.0, 1.0)
    assert (found.of, found.met) == ("data", False)
    assert found.measured == pytest.approx(10e6)
    assert found.waited_share == pytest.approx(0.84)


def test_a_library_that_nobody_waited_for_is_not_judged() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6, "work": 100e6}, cores=4)
    assert judge_workload(needs, [waiting(4.9, 1_000)], 100.0, 1.0) == []


def test_a_library_that_kept_up_is_not_called_met() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    assert judge_workload(needs, [waiting(50.0, 5_000_000_000)], 100.0, 1.0) == []


def test_more_launches_than_cores_share_what_the_cores_are_owed() -> None:
    """Eight launches on four cores each get half of what a core requires: the library gave all it owes."""
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    crowd = [waiting(100.0, 5_100_000_000)] * 8
    assert judge_workload(needs, crowd, 100.0, 8.0) == []
    assert [each.met for each in judge_workload(needs, crowd, 100.0, 4.0)] == [False]
