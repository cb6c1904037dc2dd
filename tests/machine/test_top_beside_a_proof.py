"""`gridwright top` beside `gridwright prove`: both say what was moved within the same seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.runs.samples import SampleRow, read_samples
from tests.support.command import Command
from tests.support.loop_lab import loop_lab

pytestmark = pytest.mark.root

RATE = 30_000_000
"""Each node writes so much a second, whatever else this machine does."""


def test_delivered_rates_are_those_of_the_samples_of_a_proof(gridwright: Command, tmp_path: Path) -> None:
    with loop_lab(gridwright, tmp_path, "prooflab", "10.97.58.0/24", "1 MB/s/core") as grid:
        grid.throttle("write", RATE)
        flags = ("--skip", "doctor", "--skip", "workload", "--engine", "direct", "--phases", "write")
        with gridwright.start("prove", grid.lab.spec, *flags, "--seconds", "9", "--json") as proof:
            proof.says("data: write (")
            seen = grid.lab.command("top", grid.lab.spec, "--once", "--interval", "4s", "--json").json
            ended = proof.end(90)
        assert ended.status in {0, 1}, ended.err
        rows = read_samples(gridwright.only_run() / "samples.parquet")
    (library,) = seen["libraries"]
    end, seconds = seen["time"], seen["seconds"]
    assert {row.node for row in rows} == {"compute1", "compute2"}
    within = [row for row in rows if row.time is not None]
    assert min(row.time or 0.0 for row in within) - 1.0 < end - seconds
    assert end < max(row.time or 0.0 for row in within)
    expected = sum(_moved_between(row, end - seconds, end) for row in within) / seconds
    assert expected == pytest.approx(2 * RATE, rel=0.1), "the limit holds"
    assert library["written_bytes_per_s"] == pytest.approx(expected, rel=0.05)
    assert library["read_bytes_per_s"] < 0.05 * expected


def _moved_between(row: SampleRow, begin: float, end: float) -> float:
    """Bytes of a sample that fall into a span, as if they had been moved evenly."""
    assert row.time is not None
    assert row.interval_s
    overlap = min(end, row.time) - max(begin, row.time - row.interval_s)
    return max(0.0, overlap) / row.interval_s * row.moved_bytes
