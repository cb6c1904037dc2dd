"""The mixed workload on the page: what is there, what is left out, and that nothing upsets it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gridwright.report.figures import ABSENT
from gridwright.report.page import ReportInput, render_report
from tests.fixtures.runs import built_runs
from tests.support.records import launch_record, workload_record, workload_row
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
