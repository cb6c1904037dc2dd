"""Nodes side by side: on the page, on the terminal and in the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridwright.report.terminal.workload import workload_text
from gridwright.report.workload.nodes import nodes_chart, nodes_table
from gridwright.report.workload.part import workload_part
from gridwright.report.workload.verdict import judged_sentence
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.runs.workload_reducer import summarize_nodes
from tests.support.records import launch_record, workload_record


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
    assert [row[0].text for row in table.rows] == ["compute1", "compute2", "compute3"]
    titles = [column.title for column in table.columns]
    assert [row[titles.index("Ratio mean")].text for row in table.rows] == ["0.52", "0.64", "0.77"]
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
    assert [row[-1].text for row in table.rows] == ["0", "0", "0", "1"]
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
