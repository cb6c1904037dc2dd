"""The console in a real browser: quiet, whole at every width, for keyboards and screen readers, and safe."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.monitor.console.watching import Watching
from gridwright.monitor.history.reading import StoredHistories
from tests.support.command import GRIDWRIGHT, Command
from tests.support.console_grid import steps_to_the_job, troubled
from tests.support.console_page import ARGUMENTS, CHROMIUM, Scheme, opened
from tests.support.console_server import ServedConsole, served
from tests.support.generated_history import YEAR_S, generate_history
from tests.support.lab import nodes_only, up
from tests.support.pretend_histories import END_S, MOUNT, PretendHistories
from tests.support.skips import needs

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
NOTHING = "\N{EN DASH}"
DETAILS = (
    "nodes?node=compute1", "nodes?node=compute3", "jobs?job=4711", "storage?target=scratch-OST0002",
)  # fmt: skip
"""Of one thing: made of the same parts, so that two of the six ways to look at them are enough."""
VIEWS = ("overview", "storage", "nodes", "jobs", "space", "runs", "repositories")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    needs(str(CHROMIUM))
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def console() -> Iterator[ServedConsole]:
    """A grid with a node that went away, a job and a mount with hostile names, runs, prices, a repository."""
    histories = PretendHistories(
        away={"compute3": END_S - 900}, jobs=("4711", "4712", HOSTILE), mount=MOUNT + HOSTILE
    )
    with served(troubled(histories, job_name=HOSTILE, name=f"demo {HOSTILE}")) as found:
        yield found


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (800, "dark"),
        (400, "dark"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in [(1280, "dark"), (800, "light"), (400, "light")]
        ),
    ],
)
def test_every_view_is_quiet_whole_and_without_serious_findings_of_axe(
    browser: Any, console: ServedConsole, width: int, scheme: Scheme
) -> None:
    looks_closely = (width, scheme) in {(1280, "light"), (400, "dark")}
    with opened(browser, console.url, width=width, scheme=scheme) as seen:
        for view in (*VIEWS, *(DETAILS if looks_closely else ())):
            seen.show(view)
            assert seen.page.evaluate("() => document.documentElement.scrollWidth") <= width, view
            assert seen.page.evaluate("() => document.documentElement.dataset.theme") == scheme
            assert not looks_closely or seen.fault() == [], view
        assert seen.messages == []
        assert all(each.startswith(seen.root) for each in seen.requests)
        # Nothing of a hostile name became a part of the page.
        assert seen.page.evaluate("() => document.querySelectorAll('img, script').length") == 1


def test_from_something_is_slow_to_this_job_on_this_target_in_four_steps(
    browser: Any, console: ServedConsole
) -> None:
    with opened(browser, console.url) as seen:
        steps = [name for name, _ in steps_to_the_job(seen)]
        assert len(steps) == 4
        assert seen.page.locator(".facts").get_by_text("ann").is_visible()
        assert seen.messages == []


def test_a_node_that_is_away_is_a_gap_that_says_so_and_a_link_brings_it_all_back(
    browser: Any, console: ServedConsole
) -> None:
    with opened(browser, console.url) as seen:
        assert seen.page.get_by_role(
            "link", name=re.compile("compute3 is away: no answer in time")
        ).is_visible()
        seen.show("nodes?range=1h&node=compute3")
        assert seen.page.get_by_text("It is away: no answer in time.").is_visible()
        told = seen.page.locator(".gaps").first.inner_text()
        assert "Nothing is known of compute3 from" in told
        assert "15 minutes" in told
        link = seen.page.url
        seen.page.get_by_role("button", name="Table").first.click()
        rows = seen.page.locator("figure table").first.locator("tbody tr")
        assert rows.first.locator("td").first.inner_text() == NOTHING
        assert rows.last.locator("td").first.inner_text() != NOTHING
    with opened(browser, console.url) as again:
        again.page.goto(link)
        again.settle("nodes")
        assert again.page.get_by_role("heading", name="Node compute3").is_visible()


def test_keys_ranges_and_charts_work_without_a_mouse(browser: Any, console: ServedConsole) -> None:
    with opened(browser, console.url) as seen:
        page = seen.page
        page.keyboard.press("3")
        seen.settle("nodes")
        page.keyboard.press("-")
        page.wait_for_function("() => location.hash.includes('from=')")
        begin, end = (float(each) for each in re.findall(r"(?:from|to)=(\d+)", page.url))
        assert end - begin == pytest.approx(7200, abs=2)
        page.keyboard.press("n")
        page.wait_for_function("() => location.hash.includes('range=1h')")
        seen.settle("nodes")
        page.keyboard.press("d")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        chart = page.locator(".plot").first
        chart.focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => document.querySelector('.readout').textContent.includes('UTC')")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash.includes('at=')")
        seen.settle("nodes")
        assert "Tables show 2026-09-21" in page.locator("#state").inner_text()
        page.keyboard.press("?")
        assert page.locator("dialog").is_visible()
        page.locator("#keys-on").uncheck()
        page.keyboard.press("Escape")
        page.locator("#main").focus()
        page.keyboard.press("1")
        assert page.evaluate("() => location.hash.slice(0, 7)") == "#/nodes"
        assert seen.messages == []


def test_why_it_is_slow_is_said_when_somebody_asks(browser: Any, console: ServedConsole) -> None:
    with opened(browser, console.url) as seen:
        seen.page.get_by_role("button", name="Say why").click()
        told = seen.page.get_by_role("region", name="Why it is slow")
        told.wait_for()
        assert "what binds: requests to target scratch-OST0002" in told.inner_text()
        assert seen.messages == []


@pytest.mark.thorough
def test_tables_sort_by_buttons_and_say_how(browser: Any, console: ServedConsole) -> None:
    with opened(browser, console.url) as seen:
        seen.show("jobs")
        head = seen.page.get_by_role("columnheader", name="read MB/s").first
        names = seen.page.locator("main section").first.locator("tbody th")
        assert head.get_attribute("aria-sort") == "descending"
        assert names.first.inner_text() == "4711"
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert names.first.inner_text() == "4712"
        assert HOSTILE in seen.page.locator("main").inner_text()


@pytest.mark.thorough
def test_a_page_whose_console_ended_says_that_what_it_shows_is_old(browser: Any) -> None:
    watching = Watching(name="demo", histories=PretendHistories(count=1), clock=lambda: END_S + 1)
    with served(watching) as console:
        context = opened(browser, console.url)
        seen = context.__enter__()
        seen.show("overview?range=1m")
    seen.page.wait_for_function(
        "() => document.getElementById('state').textContent.includes('does not answer')", timeout=60_000
    )
    assert seen.page.locator("tbody tr, .legend li").count() > 0
    context.__exit__(None, None, None)


@pytest.mark.thorough
def test_a_year_of_a_history_on_disk_is_shown_in_any_range(browser: Any, tmp_path: Path) -> None:
    name = socket.gethostname()
    generate_history(tmp_path / "one", END_S)
    histories = StoredHistories({name: tmp_path / "one"})
    watching = Watching(name=name, histories=histories, is_machine=True, clock=lambda: END_S)
    with served(watching) as console, opened(browser, console.url) as seen:
        begin, end = histories.reach() or (0.0, 0.0)
        assert end - begin > YEAR_S * 0.95
        for length in ("1m", "1h", "7d", "1y"):
            seen.show(f"nodes?range={length}&node={name}")
            seen.page.locator(".legend li", has_text="mean").first.wait_for()
        seen.show("space?range=1y")
        assert seen.page.get_by_role("link", name="/grid", exact=True).is_visible()
        assert seen.messages == []


@contextmanager
def command_of_console(directory: Path, *flags: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The real command, and the address that it prints."""
    process = subprocess.Popen(
        [GRIDWRIGHT, "console", "--port", "0", *map(str, flags)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(30)


def test_this_machine_is_shown_without_a_spec_and_an_order_to_stop_leaves_nothing(
    browser: Any, tmp_path: Path
) -> None:
    with command_of_console(tmp_path) as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", url)
        with opened(browser, url) as seen:
            seen.show("overview?range=1m")
            seen.page.locator(".legend li", has_text="mean").first.wait_for(timeout=60_000)
            # What is wrong with this machine is not the test's business; that the node answers is.
            told = seen.page.locator(".health").inner_text()
            assert "away" not in told and "Nothing is known" not in told
            assert seen.messages == []
            children = psutil.Process(process.pid).children(recursive=True)
            assert children != []
            # A page that is open holds nothing up.
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
        assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.root
def test_a_lab_with_a_node_that_was_killed_is_shown_with_what_was_known_of_it(
    browser: Any, gridwright: Command, tmp_path: Path
) -> None:
    with (
        up(nodes_only(gridwright, tmp_path, "consolelab", "10.97.43.0/24")) as lab,
        command_of_console(tmp_path, lab.spec) as (_, url),
        opened(browser, url) as seen,
    ):
        seen.show("nodes?range=1m")
        lines = seen.page.locator("figure").first.locator(".legend a")
        lines.nth(1).wait_for(timeout=60_000)
        assert sorted(lines.all_inner_texts()) == ["compute1", "compute2"]
        lab.fault("power-off", "compute2")
        seen.show("overview?range=1m")
        away = seen.page.get_by_role("link", name=re.compile("^compute2 is away: "))
        away.wait_for(timeout=60_000)
        away.click()
        seen.settle("nodes")
        seen.page.get_by_text("It is away: ").wait_for(timeout=60_000)
        # What it did before stays, and a gap follows.
        seen.page.locator(".gaps", has_text="Nothing is known of compute2").first.wait_for(timeout=60_000)
        seen.page.locator(".legend li", has_text="user").first.wait_for()
        assert seen.messages == []
