"""The report in a real browser, from a file and offline: quiet, whole, and in both colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from gridwright.report.page import render_report
from gridwright.report.table import columns_of, rows_table
from gridwright.report.usage_page import usage_page
from tests.fixtures.runs import built_runs
from tests.support.skips import needs

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
Scheme = Literal["light", "dark"]
READY = "html[data-charts=ready]"


@dataclass
class Visit:
    """An open report, and what the browser had to say about it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    needs(str(CHROMIUM))

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("reports")
    paths = {}
    for name, build in built_runs.RUNS.items():
        paths[name] = directory / f"{name}.html"
        paths[name].write_text(render_report(build()), encoding="utf-8")
    return paths


def visit(browser: Any, path: Path, width: int = 1280, scheme: Scheme = "light") -> Visit:
    context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = Visit(context.new_page())
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("console", lambda message: opened.messages.append(message.text))
    opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.page.goto(path.as_uri())
    if opened.page.query_selector(".chart"):
        opened.page.wait_for_selector(READY, timeout=60_000)
    return opened


def backgrounds(page: Any) -> set[str]:
    """Colours that charts are drawn on."""
    found: list[str] = page.eval_on_selector_all(
        ".chart .main-svg:first-child", "all => all.map(svg => getComputedStyle(svg).backgroundColor)"
    )
    return set(found)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("missed", 1280, "light"),
        ("missed", 400, "dark"),
        ("met", 1280, "dark"),
        pytest.param("met", 400, "light", marks=pytest.mark.thorough),
        ("interrupted", 400, "light"),
        ("killed", 1280, "dark"),
        ("failed", 400, "dark"),
        ("hostile", 400, "light"),
        pytest.param("hostile", 1280, "light", marks=pytest.mark.thorough),
        pytest.param("nodes", 1280, "light", marks=pytest.mark.thorough),
        ("nodes", 400, "dark"),
        ("many_nodes", 1280, "dark"),
    ],
)
def test_opens_offline_whole_and_quiet(
    browser: Any, reports: dict[str, Path], name: str, width: int, scheme: Scheme
) -> None:
    opened = visit(browser, reports[name], width, scheme)
    page = opened.page
    assert opened.messages == []
    assert opened.requests == [reports[name].as_uri()]
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    boxes = page.query_selector_all(".chart")
    assert all(box.query_selector(".main-svg .trace path") for box in boxes)
    # A hostile name may not have opened a dialog or changed the page.
    assert page.evaluate("() => document.scripts.length") == (3 if boxes else 2)
    page.context.close()


@pytest.mark.parametrize(
    ("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.thorough), (400, "dark")]
)
def test_the_page_of_usage_opens_offline_whole_and_quiet(
    browser: Any, tmp_path: Path, width: int, scheme: Scheme
) -> None:
    path = tmp_path / "usage.html"
    hours = {f"<b>user {number}": {"2027-01-02": 4.0, "2027-01-03": number + 1.0} for number in range(8)}
    path.write_text(
        usage_page(
            grid="demo",
            by="user",
            period="2027-01-01 to 2027-01-04",
            days=[f"2027-01-0{day}" for day in range(1, 5)],
            core_hours=hours,
            table=rows_table(
                "Usage by user",
                columns_of(["user"], ["jobs", "core-hours"]),
                ([name, "3", "7.0"] for name in (*hours, "all")),
            ),
        )
    )
    opened = visit(browser, path, width, scheme)
    assert opened.messages == []
    assert opened.requests == [path.as_uri()]
    assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert len(opened.page.query_selector_all(".chart .main-svg .trace.bars")) == 5
    assert opened.page.locator("h1").inner_text() == "68.0 core-hours"
    opened.page.context.close()


def test_charts_follow_when_the_colours_of_the_system_change(browser: Any, reports: dict[str, Path]) -> None:
    opened = visit(browser, reports["missed"], scheme="light")
    light = backgrounds(opened.page)
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.chart .main-svg')).backgroundColor !== before",
        arg=next(iter(light)),
    )
    dark = backgrounds(opened.page)
    assert light == {"rgb(255, 255, 255)"}
    assert dark.isdisjoint(light)
    assert opened.messages == []
    opened.page.context.close()


@pytest.mark.thorough
def test_paper_gets_light_charts_and_whole_tables(browser: Any, reports: dict[str, Path]) -> None:
    opened = visit(browser, reports["missed"], scheme="dark")
    page = opened.page
    page.emulate_media(media="print")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = page.eval_on_selector_all(
        ".chart-box",
        "all => all.map(b => [b.querySelector('.chart').offsetHeight, b.querySelector('img').offsetHeight])",
    )
    assert shown
    assert all(drawn == 0 and picture > 100 for drawn, picture in shown)
    pictures = page.eval_on_selector_all("img.paper", "all => all.map(img => decodeURIComponent(img.src))")
    assert all("rgb(25, 31, 39)" not in picture and "<svg" in picture for picture in pictures)
    # On A4 less its margins nothing may stick out of a table's box.
    page.set_viewport_size({"width": 695, "height": 900})
    widths = page.eval_on_selector_all(
        ".table-box", "all => all.map(box => [box.scrollWidth, box.clientWidth])"
    )
    assert all(inner <= outer + 1 for inner, outer in widths)
    opened.page.context.close()


def test_the_command_can_be_copied_offline(browser: Any, reports: dict[str, Path]) -> None:
    opened = visit(browser, reports["failed"])
    opened.page.click("#copy")
    opened.page.wait_for_selector("#copied:not(:empty)")
    assert opened.page.inner_text("#copied").startswith(("Copied", "Selected"))
    opened.page.context.close()


def test_text_stands_out_from_its_ground(browser: Any, reports: dict[str, Path]) -> None:
    """Contrast of at least 4.5 to 1, in light and in dark."""
    pairs = [
        ("--ink", "--card"), ("--muted", "--card"), ("--muted", "--page"), ("--link", "--card"),
        ("--met", "--met-back"), ("--missed", "--missed-back"), ("--doubt", "--doubt-back"),
        ("--other", "--other-back"), ("--met", "--card"), ("--missed", "--card"), ("--doubt", "--card"),
        ("--other", "--card"), ("--ink", "--code"), ("--ink", "--met-back"), ("--ink", "--missed-back"),
        ("--write", "--card"), ("--read", "--card"), ("--mixed", "--card"), ("--muted", "--band"),
    ]  # fmt: skip
    for scheme in ("light", "dark"):
        opened = visit(browser, reports["failed"], scheme=scheme)
        for front, back in pairs:
            assert contrast(opened.page, front, back) >= 4.5, (scheme, front, back)
        opened.page.context.close()


def contrast(page: Any, front: str, back: str) -> float:
    """WCAG's contrast ratio of two custom properties of the page."""
    both = []
    for name in (front, back):
        code = page.evaluate(
            "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()", name
        )
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        both.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(both) + 0.05) / (min(both) + 0.05)
