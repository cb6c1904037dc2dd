"""The scale of the verdict's chart: what counts can be compared, whatever else was measured."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.report.bars import required_chart
from gridwright.report.plot import Chart
from gridwright.report.verdict import verdict_in_words
from tests.fixtures.runs import built_runs


def chart_of(*libraries: dict[str, Any]) -> Chart:
    run = built_runs.run_record(met=True)
    chart = required_chart(verdict_in_words(run, built_runs.iotest_record(list(libraries), True)).libraries)
    assert chart is not None
    return chart


def one(name: str, required: float | None, write: float | None, read: float | None) -> dict[str, Any]:
    phases = [built_runs.phase("write", write), built_runs.phase("read", read)]
    return built_runs.library(name, required, True, phases)


def end_of_scale(chart: Chart) -> float:
    end: float = chart.figure["layout"]["xaxis"]["range"][1]
    return end


def test_all_fast_libraries_are_drawn_in_full() -> None:
    chart = chart_of(one("data", 100, 434, 831), one("work", 125, 622, 850))
    assert end_of_scale(chart) == pytest.approx(850 * 1.04)
    assert "cut" not in chart.note


def test_one_very_fast_library_does_not_flatten_the_others() -> None:
    chart = chart_of(one("data", 20, 19, 21), one("work", 125, 1310, 1442))
    assert end_of_scale(chart) == pytest.approx(240 * 1.04)
    assert "cut" in chart.note


def test_the_highest_requirement_is_always_on_the_scale() -> None:
    assert end_of_scale(chart_of(one("data", 1, 2, 3), one("work", 125, 90, 80))) >= 125


def test_without_requirements_the_figures_set_the_scale() -> None:
    chart = chart_of(one("data", None, 40, 50))
    assert end_of_scale(chart) == pytest.approx(50 * 1.04)
    assert [trace["name"] for trace in chart.figure["data"]] == ["write", "read"]


def test_figures_stand_beside_the_bars_with_a_dash_for_what_is_absent() -> None:
    texts = [note["text"] for note in chart_of(one("data", 100, 140, None)).figure["layout"]["annotations"]]
    assert texts == ["140", "–"]  # noqa: RUF001


def test_nothing_measured_is_no_chart() -> None:
    iotest = built_runs.iotest_record([one("data", 100, None, None)], None)
    assert required_chart(verdict_in_words(built_runs.run_record(), iotest).libraries) is None


def test_a_long_name_is_shortened_in_the_chart_only() -> None:
    chart = chart_of(one("permanent_marketing_analytics", 50, 60, 70))
    assert chart.figure["layout"]["yaxis"]["ticktext"] == ["permanent_marke…"]
    assert chart.figure["layout"]["yaxis"]["tickvals"] == ["permanent_marketing_analytics"]
    assert "permanent_marketing_analytics" in chart.spoken
