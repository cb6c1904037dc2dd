"""The tables of the workload, and the published figures beside them."""

from __future__ import annotations

import pytest

from gridwright.report.table import Table
from gridwright.report.workload import tables
from gridwright.report.workload.part import ratio_chart
from gridwright.report.workload.tables import published_workloads
from gridwright.runs.launch_record import StepRecord
from tests.support.records import launch_record, workload_record


def texts(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row.cells] for row in table.rows]


def column(table: Table | None, title: str) -> list[str]:
    assert table is not None
    position = [column.title for column in table.columns].index(title)
    return [row[position] for row in texts(table)]


def test_published_rows_have_source_and_date() -> None:
    rows = published_workloads()
    assert [row.fact_id for row in rows] == ["000.res.lustre", "000.res.ext4", "003.res.3node"]
    assert all(row.title and row.date.isdecimal() and row.fact_id.startswith(row.source) for row in rows)


def test_published_ratio_of_sums_is_not_the_headline() -> None:
    sums = [round(row.ratio_of_sums or 0, 2) for row in published_workloads()]
    assert sums == [1.02, 1.37, 1.29]
    assert column(tables.published(), "Ratio mean") == ["0.95", "1.15", "1.10"]
    assert column(tables.published(), "Ratio of the sums") == ["1.02", "1.37", "1.29"]


def test_mean_of_ratios_and_ratio_of_sums_stand_apart() -> None:
    launches = [
        launch_record(1, real_s=10.0, user_s=10.0, system_s=0.0),
        launch_record(2, real_s=90.0, user_s=9.0, system_s=0.0),
    ]
    table = tables.in_all(workload_record(launches).summary)
    assert column(table, "Ratio mean") == ["0.55"]
    assert column(table, "Ratio of the sums") == ["0.19"]
    assert column(table, "Range") == ["0.10 to 1.00"]
    assert column(table, "Width") == ["0.90"]
    assert column(table, "Std. deviation") == ["0.636"]


def test_long_tables_are_folded_and_short_ones_are_not() -> None:
    launches = [launch_record(i, f"test {i}", ok=False) for i in range(1, 60)]
    long, short = workload_record(launches), workload_record(launches[:3])
    folded = [tables.tests(long.tests), tables.failed(long.launches)]
    plain = [tables.tests(short.tests), tables.failed(short.launches)]
    assert [table.folded for table in folded if table] == [True, True]
    assert [table.folded for table in plain if table] == [False, False]


def test_the_node_is_named_only_where_there_are_several() -> None:
    one = tables.launches([launch_record(1)], None)
    two = tables.launches([launch_record(1), launch_record(2, node="grid-02")], None)
    assert one is not None
    assert "Node" not in [column.title for column in one.columns]
    assert column(two, "Node") == ["grid-01", "grid-02"]


def test_steps_sum_by_procedure_and_a_ratio_needs_all_three() -> None:
    steps = [
        StepRecord(procedure="SORT", real_s=10.0, user_s=4.0, system_s=1.0, line=1),
        StepRecord(procedure="SORT", real_s=5.0, user_s=None, system_s=1.0, line=2),
        StepRecord(procedure="MEANS", line=3),
    ]
    table = tables.steps([launch_record(steps=steps)])
    assert texts(table) == [
        ["SORT", "2", "15.0", "4.00", "2.00", "0.50"],
        ["MEANS", "1", "–", "–", "–", "–"],  # noqa: RUF001
    ]
    assert tables.steps([launch_record()]) is None


def test_a_signal_stands_in_place_of_an_exit_status() -> None:
    rows = [
        launch_record(1, ok=False, signal="SIGKILL", exit_status=None),
        launch_record(2, ok=False, exit_status=3),
    ]
    assert column(tables.failed(rows), "Exit") == ["SIGKILL", "3"]


@pytest.mark.parametrize("ratios", [[0.0], [0.95], [1.0, 1.0], [0.1, 16.0], [0.9] * 50 + [400.0], [1e-9]])
def test_the_histogram_counts_every_ratio_within_its_axis(ratios: list[float]) -> None:
    launches = [launch_record(i, cpu_real_ratio=value) for i, value in enumerate(ratios)]
    chart = ratio_chart(launches, None)
    assert chart is not None
    (trace,) = chart.figure["data"]
    assert sum(trace["y"]) == len(ratios)
    assert len(trace["y"]) <= 62
    end = chart.figure["layout"]["xaxis"]["range"][1]
    assert trace["x"][-1] + trace["width"] / 2 <= end
    assert 0 <= chart.figure["layout"]["shapes"][0]["x0"] <= end


def test_a_far_ratio_does_not_press_the_others_together() -> None:
    launches = [launch_record(i, cpu_real_ratio=0.5 + i / 100) for i in range(50)]
    chart = ratio_chart([*launches, launch_record(99, cpu_real_ratio=400.0)], None)
    assert chart is not None
    assert chart.figure["layout"]["xaxis"]["range"][1] < 4
    assert "to 400" in chart.note


def test_no_ratio_is_no_histogram() -> None:
    assert ratio_chart([launch_record(cpu_real_ratio=None)], None) is None
