"""The nodes of a throughput test side by side: on the page and on the terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gridwright.messages import typed
from gridwright.report.iotest_nodes import MOST_NODES, facts_table, node_phases, nodes_chart, nodes_table
from gridwright.report.marks import mark_of
from gridwright.report.page import render_report
from gridwright.report.terminal.run import iotest_text
from gridwright.report.verdict import verdict_in_words
from gridwright.runs.judge import judge_library
from gridwright.runs.phase_record import RecordedNode
from gridwright.runs.records import IotestRecord, LibraryRecord
from tests.fixtures.runs import built_runs

NAMES = ["compute1", "compute2", "compute3"]


def library(names: list[str] = NAMES, *, lost: bool = False) -> LibraryRecord:
    return typed(built_runs.nodes_library(names, lost=lost), LibraryRecord)


def bars(found: LibraryRecord) -> dict[str, dict[str, float | None]]:
    """Bars of the chart: operation, then node."""
    chart = nodes_chart(found, "library-0")
    assert chart is not None
    return {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in chart.figure["data"]}


def rows(table: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_each_node_has_a_bar_for_each_phase() -> None:
    found = bars(library())
    assert list(found) == ["write", "read"]
    assert found["write"] == {
        "compute1": pytest.approx(4 * 131.0),
        "compute2": pytest.approx(4 * 138.0),
        "compute3": pytest.approx(4 * 145.0),
    }


def test_a_failed_node_has_no_bar_and_keeps_its_place() -> None:
    found = bars(library(lost=True))
    assert list(found["read"]) == NAMES
    assert found["read"]["compute3"] is None


def test_of_many_nodes_the_slowest_are_drawn() -> None:
    names = [f"n{number}" for number in range(100)]
    found = bars(library(names))
    # Rates rise with the number; the first forty are the slowest.
    assert list(found["write"]) == names[:MOST_NODES]
    chart = nodes_chart(library(names), "library-0")
    assert chart is not None
    assert chart.note == "The 40 slowest of 100 nodes."


def test_the_table_has_a_row_for_each_node_and_one_for_all() -> None:
    table = nodes_table(library(lost=True))
    assert table is not None
    write = [row for row in rows(table) if row[1] == "write"]
    assert [row[0] for row in write] == [*NAMES, "all but 1"]
    assert write[2][-1] == "failed"
    read = [row for row in rows(table) if row[1] == "read"]
    assert read[0][-1] == "stood still for 6.4 s"
    assert write[0][7] == "131", "MB/s per core of that node"


def test_one_node_alone_has_neither_chart_nor_table() -> None:
    alone = typed(built_runs.missed_libraries()[0], LibraryRecord)
    assert node_phases(alone) == []
    assert nodes_chart(alone, "library-0") is None
    assert nodes_table(alone) is None
    assert facts_table([]) is None


def test_facts_of_nodes_are_told() -> None:
    facts = [typed(each, RecordedNode) for each in built_runs.node_facts(NAMES)]
    table = facts_table(facts)
    assert table is not None
    assert rows(table)[0] == ["compute1", "compute1", "4", "32 GiB", "Linux 6.1.0", "0.1.0", "+0.7 ms"]


def test_what_was_measured_without_a_node_is_not_met() -> None:
    partial = library(lost=True)
    assert judge_library(partial) is None
    assert [mark_of(phase, 100e6, judged=True) for phase in partial.phases] == ["partial", "partial"]
    assert mark_of(partial.phases[0], 200e6, judged=True) == "missed"
    assert mark_of(library().phases[0], 100e6, judged=True) == "met"


def test_the_verdict_says_that_nodes_are_missing() -> None:
    run = built_runs.nodes_run()
    verdict = verdict_in_words(run.run, run.iotest)
    assert verdict.kind == "unproven"
    assert verdict.sentence == "The write and read of data was measured without all nodes."
    page = render_report(run)
    assert "Nodes side by side" in page
    assert "Nodes of the throughput test" in page
    assert "nodes missing" in page


def test_the_page_of_one_node_does_not_speak_of_nodes() -> None:
    page = render_report(built_runs.missed_run())
    assert "Nodes side by side" not in page
    assert "Nodes of the throughput test" not in page


def test_the_terminal_has_a_row_for_each_node() -> None:
    record = IotestRecord.model_validate(
        {
            "run": "r", "status": "complete", "findings": [], "met": None,
            "libraries": [built_runs.nodes_library(NAMES, lost=True)],
        }
    )  # fmt: skip
    said = iotest_text(record)
    lines = {name: next(line for line in said.splitlines() if name in line) for name in NAMES}
    assert re.search(r"compute1\D+524\D+131 ", lines["compute1"])
    assert "failed" in lines["compute3"]
    assert "failed" not in lines["compute2"]
    assert "together" in said
    assert "not proven" in said
