"""How the figures of the papers are worded, alike on the terminal and in docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.model.papers import INSTANCE_TABLE, LIMIT, LIMITS, PaperRow, PapersCheck, PaperSummary
from gridwright.model.prediction import Kind
from gridwright.report.figures import ABSENT, GB, MB, count, plain

KINDS: dict[Kind, str] = {
    "network": "network of nodes",
    "volume": "volumes",
    "instance store": "instance stores",
    "server": "servers",
    "stated": "rates that were stated or measured",
    "burst": "bursts, whatever binds",
    "workload": "CPU/real of the workload",
    "all": "all sustained rates",
}
"""What binds a prediction, in words."""
_SCALES = {"bytes/s": ("MB/s", MB), "bytes": ("GB", GB), "ratio": ("ratio", 1), "s": ("min", 60)}


def unit_text(unit: str) -> str:
    """The unit that values of this one are shown in."""
    return _SCALES[unit][0]


def value_text(value: float | None, unit: str) -> str:
    """A value with three significant digits, in the unit that unit_text names."""
    if value is None:
        return ABSENT
    shown = value / _SCALES[unit][1]
    return f"{shown:.2f}" if unit == "ratio" else plain(shown)


def error_text(error: float | None) -> str:
    """A signed error in percent; what rounds to nothing has no sign."""
    if error is None:
        return ABSENT
    return f"{error:+.1%}" if round(error, 3) else "0.0%"


def percent(part: float | None) -> str:
    """An absolute error in percent."""
    return ABSENT if part is None else f"{part:.1%}"


def by_reason(rows: Iterable[PaperRow]) -> dict[str, list[str]]:
    """Figures with their errors, by the reason that they share."""
    found: dict[str, list[str]] = {}
    for row in rows:
        figure = row.quantity if row.error is None else f"{row.quantity} ({error_text(row.error)})"
        found.setdefault(row.why, []).append(f"{figure} [{row.fact_id}]")
    return found


def reach_text(check: PapersCheck) -> str:
    """Whether the medians reach what they have to."""
    table = _reached(check.instance_table, LIMITS[INSTANCE_TABLE])
    others = _reached(check.others, LIMIT)
    return (
        f"Median over {INSTANCE_TABLE}'s {count(check.instance_table.count)} figures: {table}; "
        f"over the {count(check.others.count)} of all other papers: {others}."
    )


def _reached(summary: PaperSummary, limit: float) -> str:
    median = summary.median_error
    if median is None:
        return "nothing predicted"
    return f"{percent(median)} ({'within' if median <= limit else 'above'} {limit:.0%})"
