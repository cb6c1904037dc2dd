"""Repeats in words, for terminal and page: how many count, their median, their spread, what they can tell."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.report.figures import ABSENT, count, megabytes, plain, seconds
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.runs.repeats import RepeatedFigure

TITLES = ("Counted", "Median", "Spread", "Lowest", "Highest", "Least change told")
NOTE = (
    "The median is judged. Spread: standard deviation, as a part of the median. Least change told: by how "
    "much another run of as many repeats must differ for a comparison to tell it, four times out of five."
)
_BEYOND = 10
_NAMES = {
    "per_core_bytes_per_s": "MB/s per core",
    "ops_per_s": "operations/s",
    "wall_s": "real time",
    "real_s": "real time",
    "ratio": "CPU/real",
}


def repeats_table(figures: Sequence[RepeatedFigure], of: str) -> Table | None:
    """A row for each figure; `of` heads the column of what has it. None where nothing was repeated."""
    if not figures:
        return None
    return rows_table("Repeats", columns_of((of, "Figure"), TITLES), repeats_rows(figures), note=NOTE)


def repeats_rows(figures: Sequence[RepeatedFigure]) -> list[list[str]]:
    """The cells of each figure."""
    return [
        [
            figure.of or "all",
            _NAMES.get(figure.figure, figure.figure),
            f"{len(figure.values)} of {figure.ran}",
            _value(figure, figure.median),
            percent(figure.spread),
            _value(figure, figure.lowest),
            _value(figure, figure.highest),
            percent(figure.least_change),
        ]
        for figure in figures
    ]


def percent(part: float | None) -> str:
    """A small part of a whole: 0.4 %, 12 %; what is ten times the whole tells nothing more."""
    if part is None:
        return ABSENT
    return f"{plain(part * 100)} %" if part < _BEYOND else f">{_BEYOND * 100:,d} %"


def _value(of: RepeatedFigure, value: float | None) -> str:
    match of.figure:
        case "per_core_bytes_per_s":
            return megabytes(value)
        case "ops_per_s":
            return count(value)
        case "wall_s" | "real_s":
            return seconds(value)
    return plain(value)
