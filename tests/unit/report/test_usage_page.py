"""The page of a grid's usage."""

from __future__ import annotations

import json
import re

import plotly.graph_objects

from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.usage_page import MOST_SHOWN, OTHERS, chart_of, usage_page

DAYS = ["2027-01-01", "2027-01-02"]
HOURS = {f"user<{number}>": {"2027-01-02": 10.0 - number} for number in range(7)}


def test_the_chart_is_a_figure_that_plotly_accepts_and_has_all_core_hours() -> None:
    chart = chart_of("user", DAYS, HOURS)
    assert chart is not None
    plotly.graph_objects.Figure(json.loads(re.sub(r'"--[a-z]+"', '"#123456"', json.dumps(chart.figure))))
    traces = chart.figure["data"]
    assert [trace["name"] for trace in traces][-1] == OTHERS
    assert len(traces) == MOST_SHOWN + 1
    assert sum(sum(trace["y"]) for trace in traces) == sum(10.0 - number for number in range(7))
    assert all(trace["x"] == DAYS for trace in traces), "a day without a job is there, too"


def usage_table(name: str) -> Table:
    return rows_table("Usage by user", columns_of(["user"]), [[name]])


def test_a_page_without_a_job_says_so_and_text_from_outside_is_no_markup() -> None:
    empty = usage_page(
        grid="g", by="user", period="today", days=DAYS, core_hours={}, table=usage_table("all")
    )
    assert "No job ended in this time" in empty
    page = usage_page(
        grid="g", by="user", period="today", days=DAYS, core_hours=HOURS, table=usage_table("user<1>")
    )
    assert "user<1>" not in page
    assert "user&lt;1&gt;" in page
