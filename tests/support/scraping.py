"""Prometheus as it scrapes, and what it and promtool say."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gridwright.monitor.exporter.rules import dashboard_files
from tests.support.prometheus import program


@contextmanager
def started(*command: str | Path, log: Path) -> Iterator[None]:
    """A server that runs, and has ended afterwards."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.kill()
            process.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def prometheus(configuration: Path) -> Iterator[int]:
    port, data = free_port(), configuration.with_name("prometheus")
    with started(
        program("prometheus"),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}",
        log=configuration.with_name("prometheus.log"),
    ):
        yield port


def query(port: int, expression: str) -> list[Any]:
    """What Prometheus' API answers, at either server."""
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            document = json.load(answer)
    except OSError:
        return []
    assert document["status"] == "success"
    return list(document["data"]["result"])


def promtool(*arguments: str | Path, stdin: str = "") -> str:
    """What it printed, where it was content."""
    done = subprocess.run(
        [program("promtool"), *arguments], input=stdin.encode(), capture_output=True, timeout=60, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def expressions_of(dashboard: str) -> list[str]:
    """As Grafana hands them on, for all nodes."""
    values = {"$job": "gridwright", "$instance": ".+", "$__rate_interval": "10s"}
    board = json.loads(dashboard_files()[f"gridwright-{dashboard}.json"])
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [re.sub(r"\$\w+", lambda name: values[name[0]], each) for each in found]


def complaints(page: str) -> set[str]:
    """What promtool minds in a page that it can read."""
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=page.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    # 3: it was read, and there are such remarks (cmd/promtool/main.go: lintErrExitCode).
    assert done.returncode in {0, 3}, done.stderr
    return set((done.stdout + done.stderr).decode().splitlines())
