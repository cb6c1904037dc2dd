"""Pages of predictions and plans: whole, escaped, and with pictures that are true to their figures."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from itertools import pairwise

import plotly.graph_objects
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import Finding
from gridwright.model.prediction import (
    AtOnce,
    Bound,
    LibraryPrediction,
    Prediction,
    Rates,
    UnevenSpace,
)
from gridwright.report.designs.charts import (
    Picture,
    chain_pictures,
    costs_chart,
    pareto_chart,
    place_on_route,
    plan_costs_chart,
    predicted_chart,
)
from gridwright.report.designs.page import DESIGNS_DRAWN, plan_page, prediction_page
from gridwright.report.figures import megabytes
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.usage_page import MOST_SHOWN, OTHERS, chart_of, usage_page
from gridwright.spec.warnings import PeakFactor
from tests.unit.report import sample_designs

PAGES: dict[str, Callable[[], str]] = {
    "lake": lambda: prediction_page(sample_designs.lake()),
    "fsx": lambda: prediction_page(sample_designs.fsx()),
    "unrequired": lambda: prediction_page(sample_designs.unrequired()),
    "plan": lambda: plan_page(sample_designs.plan()),
    "impossible": lambda: plan_page(sample_designs.impossible()),
    "hostile": lambda: plan_page(sample_designs.hostile()),
}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: build() for name, build in PAGES.items()}


def body(page: str) -> str:
    """The page without styles and scripts."""
    return re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)


def text(page: str) -> str:
    """All words of the page, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body(page))).split())


@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_is_whole_and_takes_nothing_from_elsewhere(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert not re.findall(
        r"<(?:script|img|link|iframe)[^>]+(?:src|href)=[\"'](?!data:)", page.split("<main>")[0]
    )
    assert "default-src 'none'" in unescape(page)
    assert "None" not in text(page).replace("Findings None.", "")


def test_a_prediction_says_first_whether_requirements_are_met(pages: dict[str, str]) -> None:
    assert "Requirements missed, as predicted data falls short, bound by lake.oss.volume" in text(
        pages["lake"]
    )
    assert "Requirements met, as predicted" in text(pages["fsx"])
    assert "Nothing required: no verdict" in text(pages["unrequired"])


def test_all_libraries_that_fall_short_are_named() -> None:
    prediction = sample_designs.fsx()
    short = tuple(replace(each, requires_bytes_per_s_per_core=1e12) for each in prediction.libraries[:2])
    page = prediction_page(replace(prediction, libraries=(*short, prediction.libraries[2]), answer="no"))
    assert "data and work fall short, bound by fsx.throughput." in text(page)


def test_the_group_that_falls_short_is_blamed_not_what_binds_all_nodes() -> None:
    prediction = sample_designs.fsx()
    data = prediction.libraries[0]
    rates = data.rates["read"]
    narrow = replace(rates.chain[0], resource="small.node.network-in", bytes_per_s=1e6)
    small = replace(rates, bytes_per_s=1e6, bytes_per_s_per_core=1e6, chain=(narrow, *rates.chain))
    short = replace(data, groups={"big": data.rates, "small": {**data.rates, "read": small}})
    page = text(prediction_page(replace(prediction, libraries=(short,), answer="no")))
    assert "data falls short, bound by small.node.network-in." in page


def test_what_is_met_by_less_than_its_margin_is_not_called_met() -> None:
    prediction = sample_designs.fsx()
    data = prediction.libraries[0]
    rate = min(rates.bytes_per_s_per_core for rates in data.rates.values())
    close = replace(data, requires_bytes_per_s_per_core=rate / 1.01)
    page = text(prediction_page(replace(prediction, libraries=(close,), answer="within the margin")))
    assert "Within the margin of error: neither met nor missed" in page
    assert "Requirements met" not in page
    assert "not exceeded on nine in ten of 3 published figures" in page


def test_every_limit_and_cost_stands_on_the_page_with_its_source(pages: dict[str, str]) -> None:
    prediction = sample_designs.lake()
    words = text(pages["lake"])
    for library in prediction.libraries:
        for rates in library.rates.values():
            for bound in rates.chain:
                assert bound.resource in words
                assert bound.source in words
    assert all(cost.what in words for cost in prediction.costs)
    assert "paper 4632-2020" in words


def test_findings_stand_on_the_page_with_their_remedies() -> None:
    finding = Finding("warning", "no-price", "no <price> is known", "add the price")
    words = text(prediction_page(replace(sample_designs.fsx(), findings=(finding,))))
    assert "warning no-price no <price> is known What to do: add the price" in words


def test_layouts_stand_on_the_page_with_their_reason_and_band() -> None:
    prediction = sample_designs.lake()
    words = text(prediction_page(prediction))
    assert "Layouts of files: what all streams of a library get together, in MB/s" in words
    for layout in prediction.layouts.values():
        assert layout.choice.reason in words
        assert layout.choice.layout.text in words
        for placed in layout.placed:
            assert megabytes(placed.floor_bytes_per_s) in words
            assert megabytes(placed.median_bytes_per_s) in words
    name, layout = next(iter(prediction.layouts.items()))
    uneven = UnevenSpace("lake-OST0003", 0.08, "lake-OST0000", 0.6, 5, 2e9)
    at_once = AtOnce((name, "other"), 128, 0.42, 0.357, 123.4e6)
    layouts = {**prediction.layouts, name: replace(layout, uneven=uneven, at_once=at_once)}
    words = text(prediction_page(replace(prediction, layouts=layouts)))
    assert "lake-OST0003 has 8 % free against 60 % of lake-OST0000: new files go by free space" in words
    assert f"with {name} and other busy at once, 128 streams meet the same OSTs" in words
    assert " 123 " in words
    assert "Layouts of files" not in text(prediction_page(replace(prediction, layouts={})))


def test_a_plan_has_readings_designs_neighbours_and_the_explanation(pages: dict[str, str]) -> None:
    plan = sample_designs.plan()
    words = text(pages["plan"])
    for reading in plan.readings:
        assert f"{reading.what} {reading.value} {reading.source}" in words
    for neighbour in plan.neighbours:
        assert f"{neighbour.title} {neighbour.change} {neighbour.why}" in words
    assert plan.explanation is not None
    assert plan.explanation.verdict in words
    assert re.search(r"work on volumes 66.0 MB/s 125 MB/s \S*\s*not needed", words)
    for rank, design in enumerate(plan.designs[:DESIGNS_DRAWN], start=1):
        assert f"{rank}. {design.title}" in words
    assert pages["plan"].count('<figure class="chain"') == sum(
        len(chain_pictures(design.prediction)) for design in plan.designs[:DESIGNS_DRAWN]
    )


def test_the_head_of_a_plan_has_region_and_date_of_its_prices() -> None:
    sold = dataclasses.replace(sample_designs.plan(), region="eu-central-1", prices_of="2026-02 to 2026-10")
    words = text(plan_page(sold, {"title": "New grid", "customer": "Example Bank"}))
    assert (
        "plan New grid Customer Example Bank Grid demo Region eu-central-1 Prices of 2026-02 to 2026-10"
        in words
    )


def test_an_impossible_plan_says_what_binds(pages: dict[str, str]) -> None:
    words = text(pages["impossible"])
    assert "No design meets the requirements no instance type has 2 TiB of memory per core" in words
    # Without a chart there is no need of plotly.
    assert len(pages["impossible"]) < 200_000 < len(pages["plan"])


def test_text_from_outside_is_never_markup(pages: dict[str, str]) -> None:
    page = pages["hostile"]
    assert page.count("<img") == 0 or "<img src=x" not in page
    assert page.lower().count("</script>") == pages["plan"].lower().count("</script>")
    assert body(page).count("&lt;img src=x") >= 10


def test_hovers_are_read_by_plotly_and_escaped_for_it() -> None:
    plan = sample_designs.hostile()
    for chart in (pareto_chart(plan.designs), plan_costs_chart(plan.designs)):
        assert chart is not None
        hovers = [hover for trace in chart.figure["data"] for hover in trace.get("hovertext", [])]
        assert any("&lt;img src=x" in hover for hover in hovers)
        assert all("<img" not in hover for hover in hovers)


def test_the_scatter_has_every_design_once_by_its_resilience_and_rings_the_front() -> None:
    plan = sample_designs.plan()
    chart = pareto_chart(plan.designs)
    assert chart is not None
    *levels, front = chart.figure["data"]
    points = [
        (trace["name"], cost, rate)
        for trace in levels
        for cost, rate in zip(trace["x"], trace["y"], strict=True)
    ]
    assert sorted(points) == sorted(
        (f"resilience {d.resilience} of 4", d.usd_per_hour, d.bytes_per_s_per_core / 1e6)
        for d in plan.designs
    )
    assert front["x"] == [d.usd_per_hour for d in plan.designs if d.front]
    assert front["text"] == [str(i) for i, d in enumerate(plan.designs, 1) if d.front]
    # Neither colour nor shape alone tells levels apart.
    assert len({trace["marker"]["symbol"] for trace in levels}) == len(levels)
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert all(low < d.usd_per_hour < high for d in plan.designs)


def test_a_single_design_has_room_on_its_axes() -> None:
    chart = pareto_chart(sample_designs.designs()[:1])
    assert chart is not None
    low, high = chart.figure["layout"]["yaxis"]["range"]
    assert low < high
    assert pareto_chart([]) is None


def test_bars_of_costs_add_up_to_the_bill() -> None:
    prediction = sample_designs.lake()
    chart = costs_chart(prediction)
    assert chart is not None
    parts = {trace["name"]: trace["x"] for trace in chart.figure["data"]}
    assert {*parts} == {"compute nodes", "servers", "volumes of servers"}
    assert sum(sum(amounts) for amounts in parts.values()) == pytest.approx(prediction.usd_per_hour)
    fsx = costs_chart(sample_designs.fsx())
    assert fsx is not None
    assert [trace["name"] for trace in fsx.figure["data"]] == ["compute nodes", "managed file system"]


def test_without_prices_there_is_no_chart_and_with_some_a_note() -> None:
    prediction = sample_designs.lake()
    free = tuple(replace(cost, usd_per_hour=None) for cost in prediction.costs)
    assert costs_chart(replace(prediction, costs=free)) is None
    chart = costs_chart(replace(prediction, costs=(prediction.costs[0], *free[1:])))
    assert chart is not None
    assert "no known price" in chart.note


def test_predicted_rates_are_not_called_measured() -> None:
    chart = predicted_chart(sample_designs.lake())
    assert chart is not None
    assert chart.title == "Predicted against required, MB/s per core"
    assert "easured" not in chart.spoken


@pytest.mark.parametrize(
    "route",
    [
        [
            "streams",
            "node.network-out",
            "lake.oss.network-in",
            "lake.oss.volume-bandwidth",
            "lake.oss.volumes",
        ],
        ["streams", "node.network", "lake.nsd.network", "lake.nsd.disks-read"],
        ["node.network-in", "fsx.throughput"],
        ["node.volume-bandwidth", "scratch.volumes"],
        ["streams", "groups", "big.node.network-in", "big.node.volume-bandwidth", "big.scratch.volumes"],
        ["node.network-in", "node.oss.network-out", "node.oss.volumes"],
    ],
)
def test_resources_stand_in_the_order_of_the_route(route: list[str]) -> None:
    places = [place_on_route(resource) for resource in route]
    assert places == sorted(places)
    assert len({*places}) == len(places)


def prediction_of(capacities: list[float], needs: list[float | None], cores: int = 4) -> Prediction:
    """A grid whose libraries share one route over resources of these capacities."""
    names = ["node.network-out", "fs.oss.network-in", "fs.oss.volume-bandwidth", "fs.oss.volumes"]
    chain = tuple(
        sorted(
            (Bound(name, name, c, "a fact") for name, c in zip(names, capacities, strict=False)),
            key=lambda bound: bound.bytes_per_s,
        )
    )
    total = chain[0].bytes_per_s
    rates = Rates(total, total, total / cores, chain, None)
    libraries = tuple(
        LibraryPrediction(name, "fs", need, {"write": rates}, None)
        for name, need in zip(("data", "work", "util"), needs, strict=False)
    )
    return Prediction("g", 1, cores, cores, libraries, None, (), None, (), None)


def widths(picture: Picture) -> list[float]:
    """The width of all bands together where each stage ends."""
    found = []
    for stage in picture.stages:
        at_foot = [
            [float(x) for x in re.findall(r"L(-?[\d.]+) 100(?![\d.])", band.path)] for band in stage.bands
        ]
        found.append(sum(abs(x1 - x0) for x0, x1 in at_foot))
    return found


amounts = st.floats(1e6, 1e11)


@given(
    st.lists(amounts, min_size=1, max_size=4),
    st.lists(amounts | st.none(), min_size=1, max_size=3),
)
def test_bands_narrow_to_what_gets_through_and_stay_inside_the_picture(
    capacities: list[float], needs: list[float | None]
) -> None:
    prediction = prediction_of(capacities, needs)
    (picture,) = chain_pictures(prediction)
    found = widths(picture)
    assert all(after <= before + 0.05 for before, after in pairwise(found))
    needed = sum(need * 4 for need in needs if need) or min(capacities)
    top = max(needed, min(max(capacities), 2.5 * needed))
    through = [min(needed, *capacities[: i + 1]) for i in range(len(capacities))]
    assert found == pytest.approx([rate / top * 94 for rate in through], abs=0.1)
    for stage, capacity in zip(picture.stages, capacities, strict=True):
        assert stage.open == (capacity > top * (1 + 1e-9))
        if not stage.open:
            assert stage.width == pytest.approx(capacity / top * 94, abs=0.01)
        assert 0 <= stage.left <= stage.left + stage.width <= 100


@given(st.lists(amounts, min_size=1, max_size=4, unique=True), amounts)
def test_what_binds_is_marked_and_short_only_where_it_is(capacities: list[float], need: float) -> None:
    (picture,) = chain_pictures(prediction_of(capacities, [need]))
    tightest = min(capacities)
    marked = [capacities[i] for i, stage in enumerate(picture.stages) if stage.role in ("binds", "short")]
    assert marked == [tightest]
    is_short = tightest < need * 4 * (1 - 1e-9)
    assert any(stage.role == "short" for stage in picture.stages) == is_short
    assert (picture.end.role == "short") == is_short
    assert sum(stage.role == "next" for stage in picture.stages) == (len(capacities) > 1)


def test_needed_at_once_is_the_peak_factor_of_all_but_never_less_than_one_alone() -> None:
    prediction = sample_designs.fsx()
    assert prediction.together is not None
    (picture, _) = chain_pictures(prediction)
    assert picture.end.figure == "1,600 of 1,600 MB/s needed"
    more = replace(prediction, together=replace(prediction.together, peak_factor=PeakFactor(0.5, "")))
    assert chain_pictures(more)[0].end.figure == "2,240 of 2,240 MB/s needed"


def test_a_library_that_requires_nothing_has_no_band_beside_one_that_does() -> None:
    picture = chain_pictures(sample_designs.lake())[0]
    assert [(head.name, head.figure) for head in picture.heads] == [
        ("data", "requires 1,280 MB/s"),
        ("util", "requires nothing"),
    ]
    assert {band.library for stage in picture.stages for band in stage.bands} == {"data"}
    alone = chain_pictures(sample_designs.unrequired())[0]
    assert {band.library for stage in alone.stages for band in stage.bands} == {"data", "util"}
    assert "needed" not in alone.spoken


# The page of a grid's usage.

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
