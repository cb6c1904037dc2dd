"""The page of a recorded Lustre server, through the sampler, as promtool and a Prometheus take it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gridwright.monitor.exporter.metric_families import TextFormat
from gridwright.monitor.exporter.page_program import MetricsPage
from gridwright.monitor.exporter.rules import DASHBOARDS
from gridwright.monitor.sampler import Sampler
from tests.fixtures.lustre_tree import grow_tree
from tests.support.command import wait_until
from tests.support.scraping import complaints, expressions_of, prometheus, query

MIB = 2**20
STANDING = (
    "032-param-health-check",
    "041-param-osd-space",
    "043-param-lock_count",
    "049-param-recovery_status-ost",
    "050-param-recovery_status-mdt",
    "054-param-osc-state",
    "059-param-num_exports",
    "extra-22-ldlm-stats",
    "310-before-f-brw_stats-osd",
    "310-before-h-md_stats",
    "310-before-j-job_stats-mdt",
    "310-before-b-obdfilter-stats",
    "310-before-i-job_stats-ost",
)
WRITTEN = ("330-after-write-b-obdfilter-stats", "330-after-write-i-job_stats-ost")
CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: gridwright, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]
"""


class RecordedServer:
    """A server of Lustre as it was recorded, and the page that it has."""

    def __init__(self, root: Path) -> None:
        self._root, self._page = root, MetricsPage()
        self._texts: dict[TextFormat, bytes] = {}
        grow_tree(root, *STANDING)
        self._sampler = Sampler(root=root)
        self.sample()

    def sample(self) -> None:
        """Take a new one."""
        self._page.take(self._sampler.sample(), 0.1)
        self._texts = {each: b"".join(self._page.text(each)) for each in TextFormat}

    def write(self) -> None:
        """Let 100 MiB be written to each of two targets."""
        grow_tree(self._root, *WRITTEN)

    def text(self, format_: TextFormat) -> bytes:
        return self._texts[format_]

    @contextmanager
    def served(self) -> Iterator[int]:
        """On a port of loopback, until the end."""

        class Scrape(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = recorded.text(TextFormat.OPENMETRICS)
                self.send_response(200)
                self.send_header("Content-Type", TextFormat.OPENMETRICS.content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        recorded = self
        with ThreadingHTTPServer(("127.0.0.1", 0), Scrape) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield int(server.server_address[1])
            finally:
                server.shutdown()
                thread.join()


@pytest.mark.root
def test_promtool_minds_the_names_that_lustrefs_exporter_has_and_no_others(tmp_path: Path) -> None:
    page = RecordedServer(tmp_path).text(TextFormat.PLAIN).decode()
    assert 'lustre_write_bytes_total{component="ost",operation="write",target="scratch-OST0001"}' in page
    assert complaints(page) == {
        'lustre_available_kilobytes use base unit "bytes" instead of "kilobytes"',
        'lustre_capacity_kilobytes use base unit "bytes" instead of "kilobytes"',
        'lustre_free_kilobytes use base unit "bytes" instead of "kilobytes"',
        'lustre_io_time_milliseconds_total use base unit "seconds" instead of "milliseconds"',
        'lustre_lock_count non-histogram and non-summary metrics should not have "_count" suffix',
    }


@pytest.mark.root
def test_the_dashboard_of_servers_shows_what_was_recorded(tmp_path: Path) -> None:
    recorded = RecordedServer(tmp_path / "node")
    configuration = tmp_path / "prometheus.yml"
    with recorded.served() as scraped:
        configuration.write_text(CONFIGURATION.format(port=scraped))
        with prometheus(configuration) as port:
            ask = partial(query, port)
            before = wait_until(
                lambda: ask("lustre_write_bytes_total") or None,
                seconds=30,
                what="a scrape",
                last=partial(ask, "up"),
            )
            written = {each["metric"]["target"]: float(each["value"][1]) for each in before}
            recorded.write()

            def moved() -> dict[str, float]:
                found = {
                    each["metric"]["target"]: float(each["value"][1])
                    for each in ask("lustre_write_bytes_total")
                }
                return {name: value - written[name] for name, value in found.items()}

            def seen() -> bool | None:
                recorded.sample()
                job = ask('lustre_job_write_bytes_total{jobid="dd.0"}')
                return (bool(job) and min(moved().values(), default=0) > 0) or None

            wait_until(seen, seconds=30, what="the job and what it wrote", last=moved)
            assert moved() == {"scratch-OST0000": 100 * MIB, "scratch-OST0001": 100 * MIB}
            shown = {each: ask(each) for each in expressions_of("servers")}
    assert len(shown) == sum(len(panel.queries) for panel in DASHBOARDS["servers"])
    assert [each for each, found in shown.items() if not found] == []
    rates = {
        each["metric"]["target"]: float(each["value"][1])
        for expression, found in shown.items()
        if "rate(lustre_write_bytes_total" in expression and "samples" not in expression
        for each in found
    }
    assert set(rates) == {"scratch-OST0000", "scratch-OST0001"}
    assert all(rate > MIB for rate in rates.values()), rates
    (used,) = [found for expression, found in shown.items() if "available_kilobytes" in expression]
    room = {each["metric"]["target"]: float(each["value"][1]) for each in used}
    assert room["scratch-OST0000"] == pytest.approx(1 - 3605628 / 3833116)
    series = re.findall(r"(?:lustre|gridwright|recovery)_\w+", " ".join(shown))
    page = recorded.text(TextFormat.PLAIN).decode()
    assert {each for each in series if not re.search(rf"^{each}[{{ ]", page, re.MULTILINE)} == set()
