"""The page: complete, self-contained, and deaf to what others put into names."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest

from gridwright.messages import typed
from gridwright.report.bars import required_chart
from gridwright.report.charts import MAX_POINTS, extremes, timelines
from gridwright.report.figures import ABSENT
from gridwright.report.iotest_nodes import MOST_NODES, facts_table, node_phases, nodes_chart, nodes_table
from gridwright.report.page import render_report
from gridwright.report.plot import Chart
from gridwright.report.table import mark_of
from gridwright.report.terminal.run import iotest_text
from gridwright.report.verdict import verdict_in_words
from gridwright.runs.phase_record import RecordedNode
from gridwright.runs.records import FindingRecord, IotestRecord, LibraryRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.verdict import judge_library
from tests.fixtures.runs import built_runs
from tests.unit.report import workload_runs

RUNS = built_runs.RUNS | workload_runs.RUNS


class Page(HTMLParser):
    """Every element with its attributes, the text of the page, and that of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.inside.get(self._open, self.texts).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def charts(self) -> dict[str, Any]:
        charts: dict[str, Any] = json.loads(self.inside["script"][0])
        return charts


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render_report(build()) for name, build in RUNS.items()}


def page(pages: dict[str, str], name: str) -> Page:
    return Page(pages[name])


EVERY = pytest.mark.parametrize("name", list(RUNS))


@EVERY
def test_nothing_comes_from_elsewhere(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    for tag, attributes in own.elements:
        for key in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            value = attributes.get(key) or ""
            assert value == "" or value.startswith(("#", "data:")), (tag, key, value)
        assert "url(" not in (attributes.get("style") or "")
    style = "".join(own.inside["style"])
    assert "@import" not in style
    assert "url(" not in style
    assert "http" not in style
    assert not own.of("iframe")
    assert all("src" not in attributes for attributes in own.of("script"))


@EVERY
def test_the_policy_names_exactly_the_scripts_of_the_page(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    policy = next(meta["content"] for meta in own.of("meta") if "http-equiv" in meta)
    assert policy is not None
    digests = [hashlib.sha256(text.encode()).digest() for text in own.inside["script"][1:]]
    expected = {f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests}
    assert set(re.findall(r"'sha256-[^']+'", policy)) == expected
    assert policy.startswith("default-src 'none'")


@EVERY
def test_plotly_is_inlined_once_and_only_where_a_chart_is(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    libraries = sum("* plotly.js (basic" in text[:200] for text in own.inside["script"])
    assert libraries == (1 if own.charts else 0)
    drawn = {attributes["id"] for attributes in own.of("div") if attributes.get("role") == "img"}
    assert drawn == {f"chart-{chart}" for chart in own.charts}


@EVERY
def test_a_report_can_be_sent_by_mail(pages: dict[str, str], name: str) -> None:
    assert len(pages[name].encode()) < (1_900_000 if name == "workload-large" else 1_500_000)


@EVERY
def test_links_of_the_contents_lead_somewhere(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    ids = {attributes.get("id") for _, attributes in own.elements}
    links = [attributes["href"] or "" for attributes in own.of("a")]
    assert len(links) > 4
    assert {link[1:] for link in links} <= ids
    headings = [attributes.get("id") for tag, attributes in own.elements if tag == "h2"]
    assert [link[1:] for link in links if link != "#verdict"][: len(headings)] == headings


RAW = re.compile(r"\d\.\d{4,}|\d[eE][-+]\d+|\b0\d\d\.[a-z]\w*\.\w+")
"""A figure as a computer has it, and a code by which we keep a fact."""


@EVERY
def test_figures_are_for_people_and_codes_stay_inside(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    labels = [attributes.get("aria-label") or "" for _, attributes in own.elements]
    assert RAW.findall(" ".join([own.text, *labels])) == []
    hovers = [
        text for chart in own.charts.values() for each in chart["data"] for text in each.get("hovertext", ())
    ]
    assert RAW.findall(" ".join(hovers)) == []


def test_a_raw_figure_of_a_device_is_rounded() -> None:
    run = built_runs.missed_run()
    assert run.iotest is not None
    assert run.iotest.libraries[0].device is not None
    run.iotest.libraries[0].device["clock_ghz"] = 2.4999999999999996
    text = Page(render_report(run)).text
    assert "2.50" in text
    assert not RAW.search(text)


def test_the_head_has_title_site_and_customer_of_the_spec() -> None:
    run = built_runs.missed_run()
    heading = {"title": "Proof of <the> grid", "site": "Hall 2", "customer": "Example Bank"}
    named = dataclasses.replace(run, run=run.run.model_copy(update={"heading": heading}))
    made = render_report(named)
    assert "<title>Requirements missed – Proof of &lt;the&gt; grid</title>" in made  # noqa: RUF001
    text = Page(made).text
    assert text.index("Proof of <the> grid") < text.index("Customer Example Bank Site Hall 2")
    assert text.index("Customer Example Bank") < text.rindex("Requirements missed")


def test_the_banner_says_why_a_run_failed_and_what_to_do_next(pages: dict[str, str]) -> None:
    def banner(name: str) -> str:
        text = page(pages, name).text
        return text[text.index("To the verdict") : text.index("Contents")]

    failed = built_runs.RUNS["failed"]()
    told = {
        "name": "target-lost",
        "text": "the disk went away while work was written.",
        "remedy": "see its log",
    }
    lost = failed.run.model_copy(update={"findings": [FindingRecord(level="error", **told)]})
    said = Page(render_report(dataclasses.replace(failed, run=lost))).text
    assert "Reason: The disk went away while work was written. Next: See its log Contents" in said
    assert "Next: Run it again: gridwright" in banner("failed")
    assert "Next: Run it again: gridwright" in banner("interrupted")
    assert "Next:" not in banner("met")


def test_charts_are_held_against_the_schema_of_the_library_that_draws_them() -> None:
    from plotly.offline import get_plotlyjs_version

    bundle = files("gridwright.report").joinpath("plotly")
    head = bundle.joinpath("plotly-basic.min.js").read_text(encoding="utf-8")[:300]
    assert f"plotly.js (basic - minified) v{get_plotlyjs_version()}" in head
    assert "MIT License" in bundle.joinpath("LICENSE").read_text(encoding="utf-8")


@EVERY
def test_tables_and_charts_can_be_read_without_seeing(pages: dict[str, str], name: str) -> None:
    own = page(pages, name)
    assert len(own.of("table")) == len(own.of("caption"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in own.of("th"))
    assert all(attributes.get("aria-label") for attributes in own.of("div") if attributes.get("role"))
    assert len(own.of("h1")) == 1
    levels = [int(tag[1]) for tag, _ in own.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in own.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labels = [
        attributes["aria-labelledby"] for _, attributes in own.elements if "aria-labelledby" in attributes
    ]
    assert set(labels) <= set(ids)


@EVERY
def test_every_chart_is_a_figure_that_plotly_accepts(pages: dict[str, str], name: str) -> None:
    import plotly.graph_objects as go

    def coloured(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: coloured(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [coloured(inner) for inner in value]
        return "#123456" if isinstance(value, str) and value.startswith("--") else value

    style = "".join(page(pages, name).inside["style"])
    for chart in page(pages, name).charts.values():
        go.Figure({"data": coloured(chart["data"]), "layout": coloured(chart["layout"])})
        for colour in set(re.findall(r'"(--[a-z-]+)"', json.dumps(chart))):
            assert f"{colour}:" in style, colour


def test_what_others_wrote_stays_text(pages: dict[str, str]) -> None:
    own, calm = page(pages, "hostile"), page(pages, "missed")
    assert not own.of("img")
    assert len(own.of("script")) == len(calm.of("script"))
    assert not [key for _, attributes in own.elements for key in attributes if key.startswith("on")]
    assert own.text.count("<script>alert(1)</script>") > 10
    # plotly reads a little HTML in labels, so there the name is escaped a second time.
    names = own.charts["required"]["data"][0]["y"]
    assert all("<" not in name and "&lt;script&gt;" in name for name in names)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("missed", "Requirements missed"),
        ("met", "Requirements met"),
        ("unproven", "Not proven"),
        ("interrupted", "Interrupted: no verdict"),
        ("failed", "Failed: no verdict"),
    ],
)
def test_the_title_says_the_verdict(pages: dict[str, str], name: str, title: str) -> None:
    assert f"<title>{title} – " in pages[name]  # noqa: RUF001


def test_the_verdict_comes_first_and_the_rest_in_order(pages: dict[str, str]) -> None:
    text = page(pages, "missed").text
    order = [
        "Requirements missed", "Contents", "What to do:", "Measured against required", "Throughput over time",
        "Rates in MB/s", "Mixed phase", "Metadata operations", "Hostname", "Grid spec", "First-done",
        "Asked and used, where", "Copy",
    ]  # fmt: skip
    places = [text.rindex(words) if words == "First-done" else text.index(words) for words in order]
    assert places == sorted(places)


def test_absent_figures_are_dashes(pages: dict[str, str]) -> None:
    text = page(pages, "interrupted").text
    row = text[text.index("read (interrupted)") :].split("not measured")[0]
    assert row.split() == ["read", "(interrupted)", "8", *[ABSENT] * 5, "125", ABSENT]


def test_a_cached_read_is_hatched_named_and_off_the_scale(pages: dict[str, str]) -> None:
    own = page(pages, "missed")
    chart = own.charts["required"]
    cached = next(trace for trace in chart["data"] if trace["name"] == "read, cached")
    assert cached["marker"]["pattern"]["shape"] == "/"
    assert cached["y"] == ["util"]
    assert cached["x"][0] <= chart["layout"]["xaxis"]["range"][1] < 200
    assert "cached, does not count" in own.text
    assert "1,904" in own.text


def test_asked_and_used_stand_side_by_side_where_they_differ(pages: dict[str, str]) -> None:
    text = page(pages, "missed").text
    assert "work read engine io_uring posix The kernel refuses io_uring here" in text
    assert "work read queue depth 32 1 as above" in text
    assert "Asked and used" not in page(pages, "met").text


def test_sweep_and_steady_rate_are_shown(pages: dict[str, str]) -> None:
    own = page(pages, "met")
    assert any(name.startswith("sweep-") for name in own.charts)
    assert "8 1,271 159 1,096 137 read and write" in own.text
    assert "write 1,280 11 s 1,050 82 % yes 11 s" in own.text
    assert "judged in place of the last-done rate" in own.text


def test_findings_stand_once_and_the_gravest_first(pages: dict[str, str]) -> None:
    text = page(pages, "missed").text
    places = [text.index(name) for name in ("cached-read", "read-ahead-small", "hyperthreads")]
    assert places == sorted(places)
    run = built_runs.missed_run()
    assert run.iotest is not None
    twice = run.run.model_copy(update={"findings": run.iotest.findings})
    rendered = render_report(built_runs.report_input(twice, run.iotest, []))
    assert Page(rendered).text.count("hyperthreads") == 1


def test_a_killed_run_shows_what_was_sampled(pages: dict[str, str]) -> None:
    own = page(pages, "killed")
    assert list(own.charts) == ["time-library-0"]
    assert "only samples are left" in own.text


def test_the_command_to_repeat_stands_as_it_is(pages: dict[str, str]) -> None:
    assert "gridwright iotest grid.yaml --seconds 20 --streams 8 --seed 7" in page(pages, "met").text


# The scale of the verdict's chart: what counts can be compared, whatever else was measured.


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


# Samples to series: phases apart, nodes together, absent stays absent.


def row(time: float, op: str = "write", node: str = "a", **own: object) -> SampleRow:
    fixed: dict[str, Any] = {"time": time, "node": node, "library": "data", "op": op, "interval_s": 1.0}
    return SampleRow(**{**fixed, "read_bytes": 0, "written_bytes": 100, **own})


def test_phases_are_cut_apart_in_order_of_time() -> None:
    line = timelines([row(3, "read"), row(1), row(2), row(4)])["data"]
    assert [(segment.op, len(segment.points)) for segment in line.segments] == [
        ("write", 2), ("read", 1), ("write", 1),
    ]  # fmt: skip


def test_a_rate_is_bytes_over_the_interval() -> None:
    line = timelines([row(1, interval_s=0.5), row(2, written_bytes=None)])["data"]
    assert [point.written for point in line.segments[0].points] == [200.0, None]


def test_nodes_are_added_up_and_two_samples_of_one_second_are_not() -> None:
    rows = [row(1.0), row(1.4), row(1.1, node="b", written_bytes=50), row(2.0), row(2.1, node="b")]
    line = timelines(rows)["data"]
    assert line.nodes == 2
    assert [(point.time, point.written) for point in line.segments[0].points] == [(0.5, 150.0), (1.5, 200.0)]


def test_a_long_run_is_drawn_as_means() -> None:
    line = timelines(row(second, written_bytes=100 + second % 2) for second in range(3 * MAX_POINTS))["data"]
    assert line.seconds_per_point == 3
    assert len(line.segments[0].points) == MAX_POINTS


def test_what_the_device_moved_is_absent_where_no_sample_knows_it() -> None:
    line = timelines([row(1, device_read_bytes=5), row(2, device_read_bytes=None)])["data"]
    assert (line.segments[0].device_read, line.segments[0].device_written) == (5, None)
    assert extremes(line.segments[0].points, "written") == (100.0, 100.0, 100.0)
    assert extremes([], "written") == (None, None, None)


def test_rows_without_a_time_or_a_library_are_left_out() -> None:
    assert timelines([row(1, library=None), SampleRow(library="data")]) == {}


def test_the_last_milliseconds_of_a_phase_are_no_rate_of_their_own() -> None:
    line = timelines([row(1), row(2), row(2.01, interval_s=0.01, written_bytes=1)])["data"]
    assert [round(point.written or 0, 2) for point in line.segments[0].points] == [100.0, 100.0]
    assert (line.start, line.segments[0].end) == (0.0, 2.01)


def test_a_point_stands_in_the_middle_of_its_interval() -> None:
    line = timelines([row(10.0), row(12.0, interval_s=2.0)])["data"]
    assert [point.time for point in line.segments[0].points] == [9.5, 11.0]
    assert line.length == 3.0


# The nodes of a throughput test side by side: on the page and on the terminal.

NAMES = ["compute1", "compute2", "compute3"]


def library(names: list[str] = NAMES, *, lost: bool = False) -> LibraryRecord:
    return typed(built_runs.nodes_library(names, lost=lost), LibraryRecord)


def bars(found: LibraryRecord) -> dict[str, dict[str, float | None]]:
    """Bars of the chart: operation, then node."""
    chart = nodes_chart(found, "library-0")
    assert chart is not None
    return {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in chart.figure["data"]}


def rows(table: Any) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


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
