"""Medians, spreads and the tables that the benchmarks print and put into docs/performance.md."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from gridwright.atomic import write_atomically
from gridwright.runs.host import host_facts

PERFORMANCE = Path(__file__).parent.parent / "docs" / "performance.md"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """`median (min to max)`; `n/a` without values."""
    if not values:
        return "n/a"
    low, high = min(values), max(values)
    return f"{median(values):,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns but the first are right-aligned."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """One line on what a figure was measured on."""
    host = host_facts()
    return (
        f"{host.cpu_model}, {host.physical_cores} cores, {host.memory_bytes / 2**30:.0f} GiB, {host.kernel}, "
        f"Python {platform.python_version()}"
    )


def version(*command: str) -> str:
    """First line of what a tool says of its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.splitlines()[0]


def publish(name: str, text: str) -> None:
    """Put `text` between the markers of benchmark `name` in docs/performance.md."""
    start, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    page = PERFORMANCE.read_text()
    before, rest = page.split(start, 1)
    _, after = rest.split(end, 1)
    write_atomically(PERFORMANCE, f"{before}{start}\n{text}\n{end}{after}")
