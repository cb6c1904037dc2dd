"""The page of the exporter has all names that it tells, and no others."""

from __future__ import annotations

from pathlib import Path

from gridwright.monitor.exporter.metric_families import known_series
from gridwright.monitor.exporter.reference import names_table, refreshed

PAGE = Path(__file__).parents[4] / "docs" / "exporter.md"


def test_the_table_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert refreshed(text) == text, "run python -m gridwright.monitor.exporter.reference docs/exporter.md"


def test_every_series_has_a_row() -> None:
    rows = names_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(known_series())
