"""However many jobs there are, 100 have a series each, and the sums over all are exact at each width."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gridwright.monitor.history.busiest import OTHERS, BusiestJobs, busiest
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.stored import StoredHistories
from gridwright.monitor.history.writing import HistoryWriter
from gridwright.monitor.job_rows import MOST_JOBS
from gridwright.monitor.readings import LABELS
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
    assert busiest({OTHERS: 9.0, "a": 1.0}, 1) == {OTHERS, "a"}


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
