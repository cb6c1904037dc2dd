"""What held a launch: its real time is divided by cause, and nothing of it is lost or counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.workload.launches.account import bound_by, shares_of

seconds = st.floats(min_value=0.0, max_value=1e5)
waits = st.dictionaries(st.sampled_from(["data", "work", "util"]), st.tuples(seconds, seconds))
CAUSES = {"cpu", "core", "data read", "data write", "work read", "work write", "util", "memory", "other"}


def shares(**own: object) -> dict[str, float]:
    usual = {"real_s": 10.0, "cpu_s": 0.0, "core_wait_s": 0.0, "memory_wait_s": 0.0, "waits": {}}
    return shares_of(**(usual | own))  # type: ignore[arg-type]


@given(st.floats(min_value=1e-3, max_value=1e5), seconds, seconds, seconds, waits)
def test_the_shares_add_up_to_one(
    real: float, cpu: float, core: float, memory: float, moved: dict[str, tuple[float, float]]
) -> None:
    found = shares_of(real_s=real, cpu_s=cpu, core_wait_s=core, memory_wait_s=memory, waits=moved)
    assert sum(found.values()) == pytest.approx(1.0, abs=0.01)
    assert all(0.0 < share <= 1.0 for share in found.values())
    assert set(found) <= CAUSES
    cause, share = bound_by(found)
    assert share == max(found.values())
    assert cause is not None
    assert found[cause] == share


def test_a_launch_by_hand() -> None:
    found = shares(
        cpu_s=4.0,
        core_wait_s=1.0,
        memory_wait_s=0.5,
        waits={"data": (2.0, 0.0), "work": (0.5, 1.0), "util": (0.25, 0.25)},
    )
    assert found == {
        "cpu": 0.4,
        "core": 0.1,
        "data read": 0.2,
        "work read": 0.05,
        "work write": 0.1,
        "util": 0.05,
        "memory": 0.05,
        "other": 0.05,
    }
    assert bound_by(found) == ("cpu", 0.4)


def test_threads_that_compute_at_once_do_not_count_more_than_the_real_time() -> None:
    assert shares(cpu_s=40.0) == {"cpu": 1.0}
    assert shares(cpu_s=30.0, core_wait_s=10.0) == {"cpu": 0.75, "core": 0.25}


def test_a_sleep_waits_for_something_that_cannot_be_told() -> None:
    assert shares() == {"other": 1.0}


def test_memory_takes_no_more_than_what_nothing_else_took() -> None:
    assert shares(cpu_s=8.0, memory_wait_s=9.0) == {"cpu": 0.8, "memory": 0.2}


def test_nothing_is_said_of_a_launch_that_took_no_time() -> None:
    assert shares(real_s=0.0) == {}
    assert bound_by({}) == (None, None)
