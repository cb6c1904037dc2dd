"""The mixed workload on the page: what is there, what is left out, and that nothing upsets it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.report.charts import MAX_POINTS, timelines
from gridwright.report.figures import ABSENT
from gridwright.report.page import ReportInput, render_report
from gridwright.report.table import Table
from gridwright.report.terminal.run import workload_text
from gridwright.report.workload import tables
from gridwright.report.workload.nodes import nodes_chart, nodes_table
from gridwright.report.workload.part import ratio_chart, workload_part
from gridwright.report.workload.shares import (
    CAUSES,
    IN_ALL,
    Series,
    Span,
    own_samples,
    series_of,
    shares_chart,
    shares_table,
    span_of,
    tail_of,
    time_shares,
)
from gridwright.report.workload.tables import judged_sentence, published_workloads
from gridwright.runs.launch_record import LaunchRecord, StepRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_record import WorkloadRecord, summarize_nodes
from tests.fixtures.runs import built_runs
from tests.support.records import WORKLOAD_START, launch_record, workload_record, workload_row
from tests.unit.report import workload_runs
from tests.unit.report.test_report_page import Page


def page_of(run: ReportInput) -> Page:
    return Page(render_report(run))


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: page_of(build()) for name, build in workload_runs.RUNS.items()}


def test_the_parts_stand_in_order(pages: dict[str, Page]) -> None:
    text = pages["workload-failing"].text
    order = [
        "Requirements missed", "Findings", "The cores waited for work", "Matrix mixed", "In all",
        "Published, for comparison", "CPU/real ratio of single launches", "Throughput of the libraries",
        "Launches at once and CPU", "Launches by stream", "Tests: means", "Failed launches", "All launches",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_all_charts_of_a_workload_are_drawn(pages: dict[str, Page]) -> None:
    assert set(pages["workload"].charts) == {
        "workload-shares", "workload-ratios", "workload-rates", "workload-running", "workload-launches",
    }  # fmt: skip


def test_a_workload_alone_shows_nothing_of_a_throughput_test(pages: dict[str, Page]) -> None:
    text = pages["workload"].text
    for words in ("No library was measured", "Libraries MB/s per core", "First-done", "Latency", "Asked and"):
        assert words not in text
    assert "workload report" in text
    assert "CPU/real ratio User and system time over real time" in text


def test_a_throughput_test_alone_says_nothing_of_a_workload() -> None:
    text = page_of(built_runs.met_run()).text
    assert "throughput report" in text
    assert "workload" not in text


def test_a_run_of_both_shows_both(pages: dict[str, Page]) -> None:
    own = pages["workload-both"]
    assert {"required", "time-library-0", "workload-rates"} <= set(own.charts)
    for words in ("throughput and workload report", "First-done", "Bound by Where most", "Mixed workload"):
        assert words in own.text
    # The samples of the workload are of no phase: no library may show them as one.
    alone = page_of(built_runs.met_run())
    assert own.charts["time-library-0"] == alone.charts["time-library-0"]


def test_in_all_has_the_shape_of_the_published_tables(pages: dict[str, Page]) -> None:
    text = pages["workload-one"].text
    assert "This run 1 0.333 1.50 0.233 0.067 0.90 – 0.90 to 0.90 0.00 0.90" in text  # noqa: RUF001
    assert "Lustre whole grid 101 1,493 192.6 1,094 434 0.95 0.354 2.79 1.02" in text
    assert "local ext4, single SMP host one host 101 1,481 92.42 1,750 275 1.15" in text
    assert "3 nodes each node 77 620 – 719 78 1.10 – – 1.29" in text  # noqa: RUF001
    assert "003: Oracle Cloud with IBM Spectrum Scale, 2020" in text


def test_failed_launches_are_listed_with_reason_and_log(pages: dict[str, Page]) -> None:
    text = pages["workload-failing"].text
    listed = text[text.index("Failed launches") : text.index("All launches")]
    assert listed.count("1,204,112 rows where 1,204,113 are right.") == 8
    assert "logs/0006-io_write_wide.log" in listed
    assert "Failed launches" not in pages["workload"].text


def test_failed_launches_are_distinct_without_colour(pages: dict[str, Page]) -> None:
    charts = pages["workload-failing"].charts
    crosses = next(trace for trace in charts["workload-launches"]["data"] if trace["name"] == "failed")
    assert crosses["marker"]["symbol"] == "x"
    assert len(crosses["x"]) == 8
    bars = next(trace for trace in charts["workload-ratios"]["data"] if trace["name"] == "failed")
    assert bars["marker"]["pattern"]["shape"] == "x"
    assert all("failed: the answer" in text for text in crosses["hovertext"])


def test_every_launch_is_a_bar_that_says_what_it_was(pages: dict[str, Page]) -> None:
    traces = pages["workload-large"].charts["workload-launches"]["data"]
    bars = [trace for trace in traces if trace["type"] == "bar"]
    assert {trace["name"] for trace in bars} == {"io", "memory", "computation", "command"}
    assert sum(len(trace["x"]) for trace in bars) == 2000
    assert "<b>compute_logistic</b> (launch" in " ".join(bars[2]["hovertext"])
    assert "CPU/real" in bars[0]["hovertext"][0]
    assert "bound by" in bars[0]["hovertext"][0]


def test_thousands_of_launches_stay_light_and_low(pages: dict[str, Page]) -> None:
    own = pages["workload-large"]
    assert own.charts["workload-launches"]["height"] <= 600
    drawn = len(own.inside["script"][0])
    assert drawn < 1_000_000
    # No test's name is drawn; it stands in the hover only.
    assert "annotations" not in own.charts["workload-launches"]["layout"]
    folded = [name for name, _ in own.elements if name == "details"]
    assert len(folded) == 2
    assert "Launches 500 rows" in own.text
    listed = own.text[own.text.index("Launches 500 rows") :]
    assert listed.count(" failed") >= int(own.text.split(" of 2,000 launches failed")[0].split()[-1])


def test_axes_of_time_agree(pages: dict[str, Page]) -> None:
    charts = pages["workload-failing"].charts
    over_time = ("workload-rates", "workload-running", "workload-launches")
    layouts = [charts[name]["layout"] for name in over_time]
    assert len({tuple(layout["xaxis"]["range"]) for layout in layouts}) == 1
    assert len({(layout["margin"]["l"], layout["margin"]["r"]) for layout in layouts}) == 1


def test_the_mean_is_marked_and_every_launch_counted(pages: dict[str, Page]) -> None:
    chart = pages["workload"].charts["workload-ratios"]
    assert chart["layout"]["annotations"][0]["text"].startswith("<b>mean ")
    assert sum(sum(trace["y"]) for trace in chart["data"]) == 101


def test_a_tail_is_marked_only_in_a_workload_that_ended(pages: dict[str, Page]) -> None:
    assert pages["workload"].charts["workload-launches"]["layout"]["shapes"]
    assert not pages["workload-interrupted"].charts["workload-launches"]["layout"]["shapes"]


def test_imported_logs_have_steps_and_no_picture_of_time(pages: dict[str, Page]) -> None:
    own = pages["workload-imported"]
    assert set(own.charts) == {"workload-ratios"}
    assert "Steps by procedure" in own.text
    assert "SORT 42 298 128 75.6 0.77" in own.text
    assert "Matrix" not in own.text
    assert "was not run by Gridwright" in own.text
    assert "Bound by Where most" not in own.text


def test_no_launch_is_said_and_nothing_empty_is_shown(pages: dict[str, Page]) -> None:
    own = pages["workload-empty"]
    assert own.charts == {}
    assert "No test was launched." in own.text
    assert not own.of("table")


def test_absent_figures_are_dashes(pages: dict[str, Page]) -> None:
    own = pages["workload-absent"]
    assert own.charts == {}
    row = own.text[own.text.index("io_sort io") :].split("All launches")[0]
    assert row.split() == ["io_sort", "io", "3", "0", *[ABSENT] * 6]


def test_what_others_wrote_stays_text(pages: dict[str, Page]) -> None:
    own = pages["workload-hostile"]
    assert not own.of("img")
    assert not [key for _, attributes in own.elements for key in attributes if key.startswith("on")]
    assert len(own.of("script")) == 3
    for chart in own.charts.values():
        shown = [text for trace in chart["data"] for text in trace.get("hovertext", [])]
        shown += [note["text"] for note in chart["layout"].get("annotations", [])]
        assert all("<script" not in text and "<img" not in text for text in shown)


def test_the_data_set_is_named_without_its_hashes(pages: dict[str, Page]) -> None:
    text = pages["workload"].text
    assert "Total 22.4 GiB" in text
    assert "Made 81.4 s" in text
    assert "9f86d081" not in text


def test_findings_of_the_workload_are_shown_once() -> None:
    finding = {"level": "warning", "name": "few-streams", "text": "There are few.", "remedy": "Use more."}
    record = workload_record([launch_record()], findings=[finding])
    run = workload_runs.report_of(record)
    twice = dataclasses.replace(run, run=run.run.model_copy(update={"findings": record.findings}))
    assert page_of(twice).text.count("few-streams") == 1


@pytest.mark.parametrize(
    "own",
    [
        {"real_s": 0.0, "user_s": 0.0, "system_s": 0.0},
        {"cpu_real_ratio": 0.0},
        {"cpu_real_ratio": float("nan")},
        {"cpu_real_ratio": 1e9},
        {"started": None},
        {"ended": None},
        {"ended": None, "real_s": None},
        {"ok": False, "reason": None},
        {"ok": False, "reason": "x" * 100_000},
        {"stream": 100_000},
        {"bound_by": None, "bound_share": None},
    ],
    ids=",".join,
)
def test_one_odd_launch_among_others_still_renders(own: dict[str, Any]) -> None:
    launches = [launch_record(1), launch_record(2, **own)]
    page = page_of(workload_runs.report_of(workload_record(launches), [workload_row(1)]))
    assert "All launches" in page.text
    assert all(0 < chart["height"] < 700 for chart in page.charts.values())


# The tables of the workload, and the published figures beside them.


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


# Nodes side by side: on the page, on the terminal and in the verdict.


def record(nodes: int = 3, each: int = 4, **own: Any) -> WorkloadRecord:
    launches = [
        launch_record(
            n * each + i + 1, node=f"compute{n + 1}", cpu_real_ratio=0.5 + 0.125 * n + 0.01 * i, job="7"
        )
        for n in range(nodes)
        for i in range(each)
    ]
    if own.pop("lost", False):
        launches[0] = replace(launches[0], restarts=1, lost_on=["compute9"])
    made = workload_record(launches, **own)
    return made.model_copy(update={"nodes": summarize_nodes(launches, [])})


def test_a_row_and_a_mean_for_each_node() -> None:
    shown = record()
    table = nodes_table(shown.nodes)
    assert table is not None
    assert [row.cells[0].text for row in table.rows] == ["compute1", "compute2", "compute3"]
    titles = [column.title for column in table.columns]
    assert [row.cells[titles.index("Ratio mean")].text for row in table.rows] == ["0.52", "0.64", "0.77"]
    assert "Lost under" not in titles
    chart = nodes_chart(shown.nodes, shown.launches)
    assert chart is not None
    means = chart.figure["data"][-1]
    assert means["x"] == pytest.approx([0.515, 0.64, 0.765])
    assert sum(len(trace["x"]) for trace in chart.figure["data"][:-1]) == 12
    assert "from 0.52 (compute1) to 0.77 (compute3)" in chart.spoken


def test_one_node_is_not_laid_beside_itself() -> None:
    alone = record(nodes=1)
    assert nodes_table(alone.nodes) is None
    assert nodes_chart(alone.nodes, alone.launches) is None
    assert workload_part(alone, []).nodes is None


def test_of_many_nodes_those_with_the_lowest_means_are_drawn() -> None:
    many = record(nodes=100, each=2)
    chart = nodes_chart(many.nodes, many.launches)
    assert chart is not None
    assert len(chart.figure["data"][-1]["x"]) == 40
    assert max(chart.figure["data"][-1]["x"]) == 5.38, "the mean of the fortieth of a hundred"
    assert "of 100" in chart.note
    table = nodes_table(many.nodes)
    assert table is not None
    assert len(table.rows) == 100
    assert table.folded


def test_a_lost_node_is_told_everywhere() -> None:
    lost = record(lost=True)
    table = nodes_table(lost.nodes)
    assert table is not None
    assert table.columns[-1].title == "Lost under"
    assert [row.cells[-1].text for row in table.rows] == ["0", "0", "0", "1"]
    again = "right answers. 1 launch had to be started again after compute9 was lost. No requirement"
    assert again in judged_sentence(lost)
    out = workload_text(lost)
    assert "Nodes side by side" in out
    assert "compute9" in out
    assert max(map(len, out.splitlines())) <= 120


def test_names_of_nodes_are_text() -> None:
    shown = record()
    nodes = [node.model_copy(update={"node": f"<b>{node.node}"}) for node in shown.nodes]
    launches = [replace(each, node=f"<b>{each.node}") for each in shown.launches]
    chart = nodes_chart(nodes, launches)
    assert chart is not None
    assert chart.figure["layout"]["yaxis"]["ticktext"][0] == "&lt;b&gt;compute1"


def test_what_jobs_cost_is_shown_where_launches_were_jobs() -> None:
    shown = record()
    summary = shown.summary.model_copy(update={"harness_s_mean": 0.52, "queued_s_mean": 0.41})
    shown = shown.model_copy(update={"summary": summary})
    facts = dict(workload_part(shown, []).facts)
    assert facts["From one launch of a stream to the next"] == "0.520 s"
    assert facts["From handing a job in to its launch"] == "0.410 s"
    assert "launch to launch 0.520 s" in " ".join(workload_text(shown).split())


# Samples and launches over time: every byte counted once, nodes together, absent stays absent.


def series(rows: list[SampleRow], launches: list[LaunchRecord] | None = None) -> Series:
    own = own_samples(rows)
    span = span_of(own, launches or [])
    assert span is not None
    return series_of(own, launches or [], span)


def launch(begin: float, end: float, stream: int = 1) -> LaunchRecord:
    return launch_record(stream=stream, started=WORKLOAD_START + begin, ended=WORKLOAD_START + end)


def test_the_timelines_of_iotest_leave_the_workload_out() -> None:
    assert timelines([workload_row(1), workload_row(2)]) == {}


def test_samples_of_iotest_are_left_out() -> None:
    assert own_samples([workload_row(1, op="read"), workload_row(2, time=None)]) == []


def test_a_rate_is_what_was_moved_in_a_second() -> None:
    own = series([workload_row(1), workload_row(2, read_bytes=100_000_000)])
    assert own.libraries["work"]["read_bytes"] == pytest.approx((300e6, 100e6))
    assert own.libraries["work"]["device_read_bytes"] == (None, None)


def test_rates_of_nodes_add_up_and_cpu_is_their_mean() -> None:
    rows = [
        workload_row(s, node=node, cpu_percent=cpu) for s in (1, 2) for node, cpu in (("a", 20), ("b", 60))
    ]
    own = series(rows)
    assert own.libraries["work"]["read_bytes"] == pytest.approx((600e6, 600e6))
    assert own.cpu_percent == pytest.approx((40.0, 40.0))
    assert own.running == (8, 8)
    assert own.nodes == 2


def test_nodes_that_sample_at_their_own_moments_make_no_dips() -> None:
    rows = [
        workload_row(0, node=node, time=WORKLOAD_START + second + shift)
        for node, shift in (("a", 0.0), ("b", 0.45))
        for second in range(1, 20)
    ]
    middle = series(rows).libraries["work"]["read_bytes"][2:-2]
    assert middle == pytest.approx([600e6] * len(middle))


def test_the_last_milliseconds_are_no_rate_of_their_own() -> None:
    rows = [
        workload_row(1),
        workload_row(2),
        workload_row(0, time=WORKLOAD_START + 2.01, interval_s=0.01),
    ]
    assert len(series(rows).running) == 2


def test_a_long_workload_is_drawn_as_means() -> None:
    own = series([workload_row(second) for second in range(1, 2 * MAX_POINTS + 1)])
    assert own.span.bin_s == 2
    assert len(own.running) == len(own.span.middles) == MAX_POINTS


def test_launches_are_counted_where_no_sample_tells() -> None:
    own = series([], [launch(0, 4), launch(1, 3, stream=2)])
    assert own.running == pytest.approx((1, 2, 2, 1))
    assert own.cpu_percent == ()


def test_the_tail_begins_when_the_first_stream_is_done() -> None:
    launches = [launch(0, 2), launch(2, 5), launch(0, 9, stream=2)]
    assert tail_of(launches) == WORKLOAD_START + 5
    assert tail_of(launches[:2]) is None
    assert tail_of([]) is None


def test_nothing_with_a_time_has_no_axis() -> None:
    assert span_of([], [launch_record(started=None, ended=None)]) is None


@given(
    length=st.floats(0.001, 50_000),
    pieces=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=8),
)
def test_bins_share_out_every_second_exactly_once(length: float, pieces: list[tuple[float, float]]) -> None:
    span = Span(WORKLOAD_START, length)
    assert 1 <= len(span.edges) <= MAX_POINTS + 1
    for one, other in pieces:
        begin, end = (WORKLOAD_START + length * part for part in sorted((one, other)))
        shared = sum(seconds for _, seconds in span.overlaps(begin, end))
        assert shared == pytest.approx(end - begin, abs=1e-4)


# Where the time of each test went: sums that a reader can check, whatever the record lacks.

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
