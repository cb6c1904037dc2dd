"""Where the time of each test went: sums that a reader can check, whatever the record lacks."""

from __future__ import annotations

import pytest

from gridwright.report.workload.shares import CAUSES, IN_ALL, shares_chart, shares_table, time_shares
from tests.support.records import launch_record

LONG = launch_record(
    1, "sort", real_s=90.0, ok=True, shares={"cpu": 0.2, "work read": 0.5, "work write": 0.3}
)
SHORT = launch_record(2, "sort", real_s=10.0, ok=True, shares={"cpu": 1.0})
OTHER = launch_record(3, "reg", real_s=100.0, ok=True, shares={"cpu": 0.9, "core": 0.1})


def test_launches_count_by_their_time_and_the_worst_test_comes_first() -> None:
    rows = time_shares([OTHER, LONG, SHORT])
    assert [row.test for row in rows] == [IN_ALL, "sort", "reg"]
    sort = rows[1]
    # 18 s of the long launch and 10 s of the short one, of 100 s: the mean of the shares would be 60 %.
    assert sort.shares["cpu"] == pytest.approx(0.28)
    assert sort.of(next(cause for cause in CAUSES if cause.name == "work")) == pytest.approx(0.72)
    assert rows[0].shares["cpu"] == pytest.approx((28 + 90) / 200)
    for row in rows:
        assert sum(row.of(cause) for cause in CAUSES) == pytest.approx(1.0)


def test_chart_and_table_tell_the_same() -> None:
    rows = time_shares([OTHER, LONG, SHORT])
    chart, table = shares_chart(rows), shares_table(rows)
    assert chart is not None
    assert table is not None
    drawn = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in chart.figure["data"]}
    assert drawn["work"]["sort"] == pytest.approx(72.0)
    assert drawn["waiting for a core"] == {IN_ALL: 5.0, "sort": 0.0, "reg": 10.0}
    assert "memory" not in drawn
    assert "sort: computing 28 %, work 72 %" in chart.spoken
    assert [column.title for column in table.columns] == [
        "Test", "Computing", "Core", "Work read", "Work write", "Real s",
    ]  # fmt: skip
    assert [cell.text for cell in table.rows[1].cells] == ["sort", "28 %", "–", "45 %", "27 %", "100"]  # noqa: RUF001


def test_failed_launches_and_those_of_logs_have_no_part() -> None:
    failed = launch_record(4, "reg", real_s=500.0, ok=False, shares={"cpu": 1.0})
    unknown = launch_record(5, "reg", real_s=5.0, ok=True, shares={})
    assert time_shares([failed, unknown]) == []
    assert shares_chart([]) is None
    assert shares_table([]) is None
    assert [row.test for row in time_shares([OTHER, failed, unknown])] == ["reg"]
