"""Pages of predictions and plans in a real browser, offline: quiet, whole, in both colour schemes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gridwright.report.designs.page import plan_page, prediction_page
from tests.integration.test_report_browser import ARGUMENTS, CHROMIUM, READY, Scheme, contrast, visit
from tests.support.skips import needs
from tests.unit.report import sample_designs

PAGES: dict[str, Callable[[], str]] = {
    "prediction": lambda: prediction_page(sample_designs.lake()),
    "unrequired": lambda: prediction_page(sample_designs.unrequired()),
    "plan": lambda: plan_page(sample_designs.plan()),
    "impossible": lambda: plan_page(sample_designs.impossible()),
    "hostile": lambda: plan_page(sample_designs.hostile()),
}
WITHOUT_CHARTS = {"impossible"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    needs(str(CHROMIUM))

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("pages")
    paths = {}
    for name, build in PAGES.items():
        paths[name] = directory / f"{name}.html"
        paths[name].write_text(build(), encoding="utf-8")
    return paths


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("prediction", 1280, "light"),
        pytest.param("prediction", 420, "dark", marks=pytest.mark.thorough),
        ("unrequired", 420, "light"),
        ("plan", 1280, "dark"),
        pytest.param("plan", 420, "light", marks=pytest.mark.thorough),
        ("impossible", 420, "dark"),
        pytest.param("hostile", 1280, "light", marks=pytest.mark.thorough),
        ("hostile", 420, "dark"),
    ],
)
def test_opens_offline_whole_and_quiet(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: Scheme
) -> None:
    opened = visit(browser, pages[name], width, scheme)
    page = opened.page
    page.wait_for_selector(READY, timeout=60_000)
    # Folded designs must not stick out of the page either.
    page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert opened.messages == []
    assert opened.requests == [pages[name].as_uri()]
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    boxes = page.query_selector_all(".chart")
    assert bool(boxes) == (name not in WITHOUT_CHARTS)
    assert all(box.query_selector(".main-svg .trace path, .main-svg .trace .point path") for box in boxes)
    assert page.evaluate("() => document.scripts.length") == (3 if boxes else 2)
    page.context.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("width", [420, 1280])
def test_pictures_of_chains_run_without_gaps_and_stand_beside_their_words(
    browser: Any, pages: dict[str, Path], width: int
) -> None:
    opened = visit(browser, pages["prediction"], width)
    chains = opened.page.eval_on_selector_all(
        ".chain",
        """all => all.map(chain => [...chain.querySelectorAll('.stage')].map(stage => {
             const words = stage.querySelector('.stage-words').getBoundingClientRect();
             const drawn = stage.querySelector('.stage-draw svg').getBoundingClientRect();
             return {words: words.right, left: drawn.left, top: drawn.top, bottom: drawn.bottom,
                     stands: words.top, height: words.height, wide: drawn.width};
           }))""",
    )
    assert len(chains) == 4
    for stages in chains:
        for stage in stages:
            assert stage["words"] <= stage["left"]
            assert abs(stage["top"] - stage["stands"]) < 1
            assert stage["bottom"] - stage["top"] >= stage["height"]
            assert stage["wide"] > 100
        for above, below in pairwise(stages):
            assert abs(above["bottom"] - below["top"]) <= 1.5
    opened.page.context.close()


@pytest.mark.thorough
def test_hovering_a_design_says_what_it_is(browser: Any, pages: dict[str, Path]) -> None:
    opened = visit(browser, pages["plan"])
    page = opened.page
    drawn = page.query_selector("#chart-pareto .scatterlayer .trace .point")
    drawn.scroll_into_view_if_needed()
    point = drawn.bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_selector("#chart-pareto .hoverlayer .hovertext")
    said = page.text_content("#chart-pareto .hoverlayer .hovertext")
    assert "USD per hour" in said
    assert "MB/s per core, bound by" in said
    assert "resilience" in said
    page.context.close()


def test_bands_and_edges_stand_out_from_their_ground(browser: Any, pages: dict[str, Path]) -> None:
    """Contrast of at least 3 to 1 for what is drawn, in light and in dark."""
    pairs = [
        ("--band-0", "--card"), ("--band-1", "--card"), ("--band-2", "--card"),
        ("--missed-edge", "--card"), ("--other-edge", "--card"),
    ]  # fmt: skip
    for scheme in ("light", "dark"):
        opened = visit(browser, pages["prediction"], scheme=scheme)
        for front, back in pairs:
            assert contrast(opened.page, front, back) >= 3, (scheme, front, back)
        opened.page.context.close()


@pytest.mark.thorough
def test_paper_gets_light_charts_and_pictures(browser: Any, pages: dict[str, Path]) -> None:
    opened = visit(browser, pages["prediction"], scheme="dark")
    page = opened.page
    page.emulate_media(media="print")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = page.eval_on_selector_all(
        ".chart-box",
        "all => all.map(b => [b.querySelector('.chart').offsetHeight, b.querySelector('img').offsetHeight])",
    )
    assert shown
    assert all(drawn == 0 and picture > 60 for drawn, picture in shown)
    light = "rgb(43, 138, 126)"
    assert page.eval_on_selector(".band-0", "band => getComputedStyle(band).fill") == light
    page.context.close()
