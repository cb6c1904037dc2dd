"""However many jobs there are, 100 have a series each, and the sums over all are exact at each width."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gridwright.monitor.history.busiest import OTHERS, BusiestJobs, busiest
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.steady import HistoryWriter
from gridwright.monitor.history.stored import StoredHistories
from gridwright.monitor.job_rows import MOST_JOBS
from gridwright.monitor.readings import LABELS
from gridwright.monitor.views import notes, views
from tests.unit.monitor.history.nodes import START, SampledNode

READ, PROCESSES = "gridwright_job_read_bytes_total", "gridwright_job_processes"
NEAR = 1 / 1000


def test_thousands_of_jobs_that_come_and_go_keep_exact_sums_and_few_series(tmp_path: Path) -> None:
    """Each minute 120 jobs begin and 120 end, and every job moves another amount."""
    file, node = tmp_path / "n1.history", SampledNode()
    moved: dict[int, float] = defaultdict(float)
    with HistoryWriter(file) as writer:
        for number in range(1330):
            jobs = [f"{number // 60}.{each}" for each in range(120)]
            rises = {(READ, job): 1e5 * (1 + each) for each, job in enumerate(jobs)}
            node.counters = {key: value for key, value in node.counters.items() if key in rises}
            is_first = number % 60 == 0
            writer.add(node.sample(rises, {(PROCESSES, job): 1.0 for job in jobs}))
            writer.work()
            if not is_first:
                moved[number // 10] += sum(rises.values())
            node.passes()
    histories = StoredHistories({"n1": file})
    for step in (10, 600):
        question = RangeQuestion((READ,), START, START + 1200, step, most=100_000)
        (answer,) = histories.courses(question)
        labels = [each.labels for each in answer.series]
        # Two blocks, each with its own busiest.
        assert len(labels) <= 2 * (MOST_JOBS + 1)
        (few,) = histories.courses(RangeQuestion((READ,), START, START + 1200, step, most=3))
        assert len(few.series) == 4
        assert sum(each.values[1] or 0.0 for each in few.series) == pytest.approx(
            sum(each.values[1] or 0.0 for each in answer.series), rel=NEAR
        )
        (summed,) = histories.courses(RangeQuestion((READ,), START, START + 1200, step, by=()))
        (total,) = summed.series
        for number, mean in enumerate(total.values):
            tens = range(number * step // 10, (number + 1) * step // 10)
            assert mean is not None
            # The first second of all was not seen.
            seen = step - 1 if number == 0 else step
            assert mean * seen == pytest.approx(sum(moved[each] for each in tens), rel=NEAR)
    frame = histories.frame(START + 1329, 5)
    assert len(frame.jobs) == MOST_JOBS + 1
    assert sum(row.processes for row in frame.jobs) == 120
    assert {row.job for row in frame.jobs[:50]} <= {OTHERS, *(f"22.{each}" for each in range(120))}


def test_who_moved_most_in_the_minute_before_is_chosen() -> None:
    chooses = BusiestJobs(most=2)
    values = [((READ, job), rate, 0) for job, rate in (("a", 1.0), ("b", 2.0), ("c", 9.0))]
    first = {key[1]: rate for key, rate, _ in chooses.fold(values, 0)}
    assert first == {"a": 1.0, "b": 2.0, OTHERS: 9.0}, "nothing is known of a minute before"
    second = {key[1]: rate for key, rate, _ in chooses.fold(values, 1)}
    assert second == {"c": 9.0, "b": 2.0, OTHERS: 1.0}


def test_a_job_that_is_named_like_the_sum_is_in_the_sum() -> None:
    chooses = BusiestJobs(most=1)
    values = [((READ, job), rate, 0) for job, rate in ((OTHERS, 5.0), ("a", 1.0), ("b", 2.0))]
    for minute in (0, 1, 2):
        told = {key[1]: rate for key, rate, _ in chooses.fold(values, minute)}
        assert sum(told.values()) == 8.0
        assert len(told) == 2
    assert busiest({(OTHERS,): 9.0, ("a",): 1.0}, 1) == {(OTHERS,), ("a",)}


def test_a_job_of_a_few_seconds_counts_for_what_it_moved_and_no_more(tmp_path: Path) -> None:
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(700):
            job = {(READ, "7"): 100e6} if 300 <= number <= 310 else {}
            if number > 310:
                node.counters = {}
            writer.add(node.sample(job, {("node_load1",): 1.0}))
            writer.work()
            node.passes()
    (answer,) = StoredHistories({"n1": file}).courses(RangeQuestion((READ,), START, START + 600, 600))
    (job_7,) = answer.series
    # Ten seconds of ten minutes, the first of which was not seen.
    assert list(job_7.values) == pytest.approx([10 * 100e6 / 599], rel=NEAR)
    assert list(job_7.highest) == pytest.approx([100e6], rel=NEAR)


def test_jobs_of_targets_and_groups_are_bounded_by_their_own_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As servers tell them: a series for each job of each target; and a limit is no sum."""
    written, limit = "test_job_written_bytes_total", "test_group_limit_bytes"
    monkeypatch.setitem(LABELS, written, ("component", "target", "jobid"))
    monkeypatch.setitem(LABELS, limit, ("group", "device"))
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(730):
            rises = {
                (written, "ost", f"T{target}", f"{number // 60}.{job}"): 1e4 * job
                for target in range(2)
                for job in range(110)
            }
            node.counters = {key: value for key, value in node.counters.items() if key in rises}
            gauges = {(limit, "slice", "sda"): 5e6} if number < 300 else {}
            writer.add(node.sample(rises, gauges))
            writer.work()
            node.passes()
    histories = StoredHistories({"n1": file})
    question = RangeQuestion((written, limit), START, START + 600, 600, most=100_000)
    (answer,) = histories.courses(question)
    jobs = [each for each in answer.series if each.metric == written]
    assert len(jobs) == 2 * (MOST_JOBS + 1)
    assert {each.labels[1] for each in jobs} == {"T0", "T1"}
    assert {each.labels[0] for each in jobs} == {"ost"}
    # The first second of each minute is that of jobs that were not seen before.
    each_target = 1e4 * sum(range(110)) * (600 - 10) / 599
    for target in ("T0", "T1"):
        told = sum(each.values[0] or 0.0 for each in jobs if each.labels[1] == target)
        assert told == pytest.approx(each_target, rel=NEAR)
    (held,) = [each for each in answer.series if each.metric == limit]
    assert list(held.values) == pytest.approx([5e6], rel=NEAR)
    (few,) = histories.courses(RangeQuestion((written,), START, START + 600, 600, by=("jobid",), most=5))
    assert sorted(each.labels[0] for each in few.series)[-1] == OTHERS
    assert sum(each.values[0] or 0.0 for each in few.series) == pytest.approx(2 * each_target, rel=NEAR)


@pytest.mark.parametrize("hidden_mb", [0.0, 40.0], ids=["it moves nothing there", "it moves much there"])
def test_a_job_that_a_node_has_in_a_sum_is_said_to_have_moved_at_least_so_much(
    tmp_path: Path, hidden_mb: float
) -> None:
    """Job 17 is among the busiest of n1, and one of 120 on n2, where others move more. 18 is on n1 alone."""
    files = {name: tmp_path / f"{name}.history" for name in ("n1", "n2")}
    told = ("cpu_seconds", "read_bytes", "written_bytes")
    jobs = {
        "n1": {"17": 100.0, "18": 1e6},
        "n2": {"17": hidden_mb, **{f"b{each}": 50.0 for each in range(120)}},
    }
    for name, file in files.items():
        node = SampledNode()
        with HistoryWriter(file) as writer:
            for _ in range(100):
                rises = {
                    (f"gridwright_job_{each}_total", job): mb * 1e6
                    for job, mb in jobs[name].items()
                    for each in told
                }
                writer.add(node.sample(rises, {(PROCESSES, job): 1.0 for job in jobs[name]}))
                node.passes()
    # The minute that has begun knows who moved most in the one before.
    frame = StoredHistories(files).frame(START + 95, 5)
    rows = {row.job: row for row in frame.jobs}
    moved = 2 * 1e6 * (hidden_mb + 50 * 20)
    assert rows["17"].nodes == ("n1",)
    assert rows["17"].read_bytes_per_s == pytest.approx(100e6, rel=NEAR)
    assert rows["17"].more_on == ("n2",)
    assert rows["17"].more_bytes_per_s == pytest.approx(moved, rel=NEAR)
    assert rows["17"].may_be_more
    # What n2 kept together is too little to be seen beside what this one moved.
    assert not rows["18"].may_be_more
    assert rows["b0"].more_on == (), "n1 has all of its jobs, and n2 has this one"
    assert rows[OTHERS].more_on == ()
    assert sum(row.read_bytes_per_s or 0.0 for row in frame.jobs) == pytest.approx(
        sum(mb * 1e6 for each in jobs.values() for mb in each.values()), rel=NEAR
    )
    (table,) = (each for each in views(frame) if each.caption == "Jobs")
    cells = {row.key: row.cells[5].text for row in table.rows}
    assert (cells["17"], cells["18"], cells["b0"]) == ("≥100.0", "1000000", "50.0")
    assert any(each.startswith("n2 has kept the sum of some jobs alone") for each in notes(frame))


def test_a_job_that_is_in_a_sum_for_a_part_of_the_time_says_so(tmp_path: Path) -> None:
    """The minute before had it among the others: what it moved then is not in its row."""
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for number in range(100):
            of_17 = 900.0 if number > 30 else 1.0
            rises = {
                (f"gridwright_job_{each}_total", f"b{job}"): 5e6
                for job in range(120)
                for each in ("cpu_seconds", "read_bytes")
            }
            rises |= {
                (f"gridwright_job_{each}_total", "z17"): of_17 * 1e6 for each in ("cpu_seconds", "read_bytes")
            }
            writer.add(node.sample(rises, {(PROCESSES, key[1]): 1.0 for key in rises}))
            node.passes()
    rows = {row.job: row for row in StoredHistories({"n1": file}).frame(START + 80, 40).jobs}
    assert rows["z17"].read_bytes_per_s == pytest.approx(450e6, rel=NEAR), "of 900 in each second, half"
    assert rows["z17"].may_be_more
    assert rows["z17"].more_bytes_per_s >= 450e6
    now = {row.job: row for row in StoredHistories({"n1": file}).frame(START + 95, 5).jobs}
    assert now["z17"].read_bytes_per_s == pytest.approx(900e6, rel=NEAR)
    assert not now["z17"].may_be_more
