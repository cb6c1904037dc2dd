"""Statistics of a run against figures worked out by hand; a killed run tells the same as a whole one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.messages import plain, typed
from gridwright.runs.directory import RunDirectory, load_run, read_event
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    LaunchEnded,
    WorkloadBegun,
    WorkloadEvent,
    WorkloadRepeatBegun,
    WorkloadStep,
)
from gridwright.runs.workload_record import WorkloadReducer, summarize, summarize_tests
from gridwright.workload.launches.launcher import bound_by, shares_of
from tests.support.records import WORKLOAD_START, launch_record, take, workload_sample

HEADER = {"event": "workload", "matrix": "own", "scale": "tiny", "seed": 1, "streams": 2, "launches": 4}


def launch(number: int, stream: int, begin: float, end: float, **own: Any) -> LaunchRecord:
    values = {"real_s": end - begin, "user_s": 0.0, "system_s": 0.0} | own
    started, ended = WORKLOAD_START + begin, WORKLOAD_START + end
    return launch_record(
        number, own.pop("test", "sort"), stream=stream, started=started, ended=ended, **values
    )


def four() -> list[LaunchRecord]:
    """Stream 1 is busy from 0 to 10, stream 2 from 0 to 16 with a pause; the ratios are 0.5, 1, 0.25, -."""
    return [
        launch(
            1, 1, 0, 4, user_s=1.0, system_s=1.0, peak_memory_bytes=100, shares={"cpu": 0.5, "work read": 0.5}
        ),
        launch(2, 1, 4, 10, user_s=5.0, system_s=1.0, peak_memory_bytes=200, shares={"cpu": 1.0}),
        launch(3, 2, 0, 8, user_s=2.0, system_s=0.0, peak_memory_bytes=400, shares={"data read": 1.0}),
        launch(4, 2, 12, 16, user_s=3.0, ok=False, reason="no", peak_memory_bytes=800, shares={"other": 1.0}),
    ]


def test_the_summary_by_hand() -> None:
    found = summarize(four(), 2)
    assert (found.launches, found.failed, found.streams) == (4, 1, 2)
    assert (found.real_s, found.user_s, found.system_s) == (18.0, 8.0, 2.0)
    assert found.peak_memory_bytes == 700
    assert found.ratio_mean == pytest.approx((0.5 + 1.0 + 0.25) / 3)
    assert found.ratio_stdev == pytest.approx(0.381881, abs=1e-6)
    assert (found.ratio_min, found.ratio_max) == (0.25, 1.0)
    assert found.ratio_of_sums == pytest.approx(10 / 18)
    assert found.wall_s == 16.0
    assert found.mean_concurrency == pytest.approx((4 + 6 + 8 + 4) / 16)
    assert found.mean_concurrency_until_tail == pytest.approx((4 + 6 + 8) / 10)
    assert found.shares == pytest.approx({"cpu": 8 / 18, "work read": 2 / 18, "data read": 8 / 18}, abs=1e-4)
    assert found.diagnosis


def test_the_tail_begins_when_a_stream_has_nothing_left() -> None:
    """Until then as many run as there are streams."""
    steady = [launch(1, 1, 0, 5), launch(2, 1, 5, 9), launch(3, 2, 0, 6), launch(4, 2, 6, 30)]
    found = summarize(steady, 2)
    assert found.mean_concurrency_until_tail == pytest.approx(2.0)
    assert found.mean_concurrency == pytest.approx((9 + 30) / 30)


def test_streams_of_different_nodes_are_not_taken_for_one() -> None:
    nodes = [launch(1, 1, 0, 4, node="a"), launch(2, 1, 0, 10, node="b")]
    assert summarize(nodes, 1).mean_concurrency_until_tail == pytest.approx(2.0)


def test_a_summary_of_nothing_and_of_one() -> None:
    nothing = summarize([], 2)
    assert (nothing.launches, nothing.real_s, nothing.ratio_mean, nothing.wall_s) == (0, None, None, None)
    one = summarize(four()[:1], 1)
    assert (one.ratio_mean, one.ratio_stdev) == (0.5, None)
    failed = summarize(four()[3:], 1)
    assert (failed.failed, failed.real_s, failed.ratio_of_sums) == (1, None, None)


def test_a_row_per_test_in_the_order_of_their_first_launch() -> None:
    first, second, third, fourth = four()
    rows = summarize_tests([replace(first, test="merge"), second, third, fourth])
    assert [(row.test, row.launches, row.failed) for row in rows] == [("merge", 1, 0), ("sort", 3, 1)]
    assert rows[1].real_s_mean == 7.0
    assert rows[1].ratio_mean == pytest.approx(0.625)
    assert rows[1].bound_by == "data read"


def known(line: dict[str, Any]) -> WorkloadEvent:
    event = WORKLOAD_EVENTS.read(line)
    assert event is not None
    return event


def events(launches: list[LaunchRecord]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [HEADER]
    for each in launches:
        found += [
            {
                "event": "launch-started",
                "time": 1.0,
                "number": each.number,
                "label": each.test,
                "stream": each.stream,
            },
            {"event": "sample"} | workload_sample(each.number),
            {"event": "launch", "launch": plain(each)},
        ]
    return found


def taken(runs: Path, name: str, launches: list[LaunchRecord]) -> RunDirectory:
    run = RunDirectory.create(runs, name, command=["gridwright", "workload"], what=["workload"])
    for event in events(launches):
        take(run, event)
    return run


@pytest.mark.parametrize("held", range(5))
def test_the_journal_of_a_killed_run_tells_the_same_as_a_whole_run(tmp_path: Path, held: int) -> None:
    killed, whole = taken(tmp_path, "killed", four()[:held]), taken(tmp_path, "whole", four()[:held])
    with (killed.path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event":"launch","launch":{"number":9')
    whole.finish("complete")
    broken, finished = load_run(killed.path), load_run(whole.path)
    assert broken.workload is not None
    assert finished.workload is not None
    assert broken.workload.launches == finished.workload.launches == four()[:held]
    assert broken.workload.summary == finished.workload.summary
    assert broken.workload.tests == finished.workload.tests
    assert [row.time for row in broken.samples] == [row.time for row in finished.samples]
    assert broken.workload.met is None or broken.run.status == "running"
    assert finished.workload.met is (False if held == 4 else None)


def test_the_order_in_which_launches_end_does_not_matter() -> None:
    forwards, backwards = WorkloadReducer(), WorkloadReducer()
    for reducer, order in ((forwards, four()), (backwards, four()[::-1])):
        for event in events(order):
            if event["event"] != "sample":
                reducer.take(known(event))
    assert forwards.record("r", "complete") == backwards.record("r", "complete")


def test_an_event_that_is_not_known_changes_nothing() -> None:
    assert read_event({"event": "of the future"}, workload=False) is None
    assert read_event({"event": "of the future"}, workload=True) is None
    reducer = WorkloadReducer()
    assert not reducer.begun
    reducer.take(known(HEADER))
    before = reducer.record("r", "running")
    reducer.take(WorkloadStep())
    assert reducer.record("r", "running") == before
    assert before.met is None


def repeated_workload(ratios: list[float], required: float, **own: Any) -> WorkloadReducer:
    """A launch of 10 s in each repeat, minutes apart, with these CPU/real ratios; `disturbed` is a repeat."""
    reducer = WorkloadReducer()
    header = {"matrix": "own", "scale": "tiny", "seed": 1, "streams": 1, "launches": len(ratios)}
    needs = {"ratio": required, "real_s": 11.0}
    reducer.take(typed(header | {"repeat": len(ratios), "requires": needs}, WorkloadBegun))
    for number, ratio in enumerate(ratios, start=1):
        reducer.take(WorkloadRepeatBegun(number=number, of=len(ratios)))
        begin, disturbed = 300.0 * number, own.get("disturbed") == number
        record = launch(number, 1, begin, begin + 10, user_s=10 * ratio, disturbed=disturbed)
        reducer.take(LaunchEnded(launch=record))
    return reducer


@pytest.mark.parametrize(
    ("ratios", "met"),
    [([0.95, 0.96, 0.97], True), ([0.89, 0.91, 0.99], None), ([0.5, 0.89, 1.0], False)],
)
def test_of_repeats_the_median_ratio_is_judged(ratios: list[float], met: bool | None) -> None:
    found = repeated_workload(ratios, 0.9).record("r", "complete")
    ratio, real = found.requirements
    assert ratio.measured == pytest.approx(sorted(ratios)[1])
    assert (ratio.met, ratio.repeats) == (met, 3)
    # Each repeat took 10 s; from the first start to the last end there are ten minutes.
    assert (real.measured, real.met, found.summary.wall_s) == (10.0, True, 10.0)
    assert found.met is met
    assert [each.repeat for each in found.launches] == [1, 2, 3]


def test_a_disturbed_repeat_of_the_workload_does_not_count() -> None:
    found = repeated_workload([0.95, 0.96, 0.97, 0.1], 0.9, disturbed=4).record("r", "complete")
    assert found.met is True
    assert found.doubtful is False
    assert found.repeats[1].values == pytest.approx([0.95, 0.96, 0.97])
    rest = repeated_workload([0.95, 0.1], 0.9, disturbed=2).record("r", "complete")
    assert (rest.met, rest.doubtful) == (None, True)


# What held a launch: its real time is divided by cause, and nothing of it is lost or counted twice.

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
