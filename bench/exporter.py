"""What a scrape of `gridwright exporter` costs, beside prometheus-node-exporter, scraped in turns with it.

python bench/exporter.py --exporter DIR/usr/bin/prometheus-node-exporter            # 5 rounds of 30 scrapes
python bench/exporter.py --exporter DIR/usr/bin/prometheus-node-exporter --publish  # into docs/performance.md

node-exporter is in the Debian package of this name: `apt-get download prometheus-node-exporter`, and
`dpkg -x FILE DIR`. It reads no jobs. Both run at the same time and are scraped once a second, in an order
that changes, so that what else the machine does meets both. CPU time is that of their processes, idle seconds
between scrapes included; the counters of Linux have steps of 10 ms, so that a round has many scrapes.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from gridwright.monitor.exporter.metric_families import TextFormat
from gridwright.monitor.exporter.page_program import MetricsPage
from gridwright.monitor.readings import Reading, Snapshot
from monitor import family, resident_mb, used_s, working
from tables import machine, markdown, publish, spread, version

JOBS = 200
LARGE_JOBS, LARGE_TARGETS = 10_000, 1_000
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass
class Costs:
    """Of each round: CPU time of a scrape in ms, MB of memory, bytes of a page, and ms until it was there."""

    cpu_ms: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        return [
            name,
            spread(self.cpu_ms, 1),
            spread(self.answer_ms, 1),
            spread(self.memory_mb),
            f"{median(self.bytes) / 1000:.0f}",
        ]


@dataclass(frozen=True)
class Scraped:
    """A server that runs."""

    port: int
    pid: int

    def scrape(self) -> tuple[float, int]:
        """How long it took, in ms, and the bytes that came."""
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
            size = len(connection.getresponse().read())
        return (time.monotonic() - begun) * 1000, size


def free_port() -> int:
    """One that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(*command: str | Path, port: int) -> Iterator[Scraped]:
    """A server, after it has answered twice."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = Scraped(port, process.pid)
            until = time.monotonic() + 60
            while True:
                try:
                    server.scrape()
                    break
                except OSError:
                    if time.monotonic() > until or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            time.sleep(1.2)
            server.scrape()
            yield server
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def measured(servers: dict[str, Scraped], found: dict[str, Costs], scrapes: int) -> None:
    """A round: each server is scraped so many times, once a second."""
    before = {name: used_s(family(each.pid)) for name, each in servers.items()}
    told: dict[str, list[tuple[float, int]]] = {name: [] for name in servers}
    due = time.monotonic()
    for number in range(scrapes):
        names = list(servers) if number % 2 == 0 else list(servers)[::-1]
        for name in names:
            told[name].append(servers[name].scrape())
        # A little more than the time for which the exporter hands out the same sample.
        due = max(due + 1.05, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    for name, each in servers.items():
        costs = found[name]
        costs.cpu_ms.append((used_s(family(each.pid)) - before[name]) / scrapes * 1000)
        costs.memory_mb.append(resident_mb(family(each.pid)))
        costs.answer_ms.append(median(took for took, _ in told[name]))
        costs.bytes.append(median(size for _, size in told[name]))


def large_page(rounds: int) -> tuple[list[float], float]:
    """CPU time in ms of writing a page of many jobs and targets, and its bytes; without the sample."""
    counters = ("cpu_seconds", "read_bytes", "written_bytes")
    readings = [
        *(
            Reading(f"gridwright_job_{what}_total", (f"{number}",), float(number), 1.0)
            for number in range(LARGE_JOBS)
            for what in counters
        ),
        *(
            Reading(
                f"gridwright_mount_{what}_total", ("/shared", f"scratch-OST{number:04x}"), float(number), 1.0
            )
            for number in range(LARGE_TARGETS)
            for what in ("read_bytes", "written_bytes", "reads", "writes")
        ),
    ]
    took, size = [], 0
    page = MetricsPage()
    for number in range(rounds):
        snapshot = Snapshot("node", "boot", float(number), float(number), 2, 2, tuple(readings))
        begun = time.process_time()
        page.take(snapshot, 0.1)
        size = sum(map(len, page.text(TextFormat.OPENMETRICS)))
        took.append((time.process_time() - begun) * 1000)
    return took, size


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--exporter", type=Path, required=True, help="the program of prometheus-node-exporter"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scrapes", type=int, default=30, help="of each server in a round")
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    found_version = re.search(r"version (\S+)", version(str(args.exporter), "--version"))
    theirs = f"prometheus-node-exporter {found_version[1] if found_version else ''}".strip()
    ours = "gridwright exporter"
    rows, loads, processes = [], [], []
    for jobs in (0, JOBS):
        found = {ours: Costs(), theirs: Costs()}
        for _ in range(args.rounds):
            one, another = free_port(), free_port()
            program: list[str | Path] = [
                Path(sys.executable).with_name("gridwright"),
                "exporter",
                "--port",
                str(one),
            ]
            flags = [f"--web.listen-address=127.0.0.1:{another}", "--log.level=error"]
            with (
                working(jobs),
                running(*program, port=one) as own,
                running(args.exporter, *flags, port=another) as other,
            ):
                measured({ours: own, theirs: other}, found, args.scrapes)
                loads.append(os.getloadavg()[0])
                processes.append(float(sum(each.name.isdigit() for each in Path("/proc").iterdir())))
        what = f"{JOBS} jobs of two processes" if jobs else "the machine as it was"
        rows += [costs.row(f"{name}, {what}") for name, costs in found.items()]
    took, size = large_page(args.rounds)
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {args.rounds} rounds of {args.scrapes} scrapes, "
            f"in turns; median (minimum to maximum). Beside it, the machine did other work: "
            f"load average {spread(loads, 1)}, {spread(processes)} processes.",
            "",
            markdown(["scraped", "ms of CPU", "ms until it came", "MB", "page, KB"], rows),
            "",
            f"A page of {LARGE_JOBS:,} jobs, of which it tells 100 and the sum of the others, and "
            f"{LARGE_TARGETS:,} targets takes {spread(took)} ms of one core to write, and has "
            f"{size / 1e6:.1f} MB.",
        ]
    )
    print(text)
    if args.publish:
        publish("exporter", text)


if __name__ == "__main__":
    main()
