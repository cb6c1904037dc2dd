"""The model against the papers on the terminal: every check, what was missed and why, the summary."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridwright.model.papers.checks import PaperRow, PapersCheck, PaperSummary, measured_margins
from gridwright.model.papers.figures import PAPERS
from gridwright.report.figures import ABSENT, count
from gridwright.report.papers.words import (
    KINDS,
    by_reason,
    error_text,
    percent,
    reach_text,
    unit_text,
    value_text,
)
from gridwright.report.terminal.frame import framed_table, printed

_WORDS = {"check": "", "context": "not counted"}


@printed
def papers_text(console: Console, check: PapersCheck) -> None:
    """Print predicted beside published, paper by paper; figures that do not count are only in --json."""
    for paper, title in PAPERS.items():
        rows = [row for row in check.of("check") if row.paper == paper and row.error is not None]
        if rows:
            console.print(_figures(f"{paper}: {title}", rows))
    _print_reasons(console, "missed, with the likely reason", check.missed)
    without = [row for row in check.of("check") if row.predicted is None]
    _print_reasons(console, "not predicted", without)
    console.print(_summary(check))
    console.print(reach_text(check), markup=False)
    console.print(_margins(check))
    hidden = len(check.of("context"))
    console.print(f"{hidden} more figures do not count, and --json lists them with the reason", markup=False)


def _figures(title: str, rows: Iterable[PaperRow]) -> Table:
    table = framed_table(title, ["figure", "unit"], ["predicted", "published", "error", ""])
    for row in rows:
        error = error_text(row.error)
        table.add_row(
            Text(row.quantity, overflow="fold"),
            unit_text(row.unit),
            value_text(row.predicted, row.unit),
            value_text(row.published, row.unit),
            Text(error, "yellow") if row.missed else error,
            _WORDS[row.role],
        )
    return table


def _print_reasons(console: Console, title: str, rows: Iterable[PaperRow]) -> None:
    for reason, figures in by_reason(rows).items():
        console.print(f"{title}: {'; '.join(figures)}", markup=False)
        console.print(f"  {reason}", style="dim", markup=False)


def _margins(check: PapersCheck) -> Table:
    heads = ["figures", "median", "90th percentile"]
    table = framed_table("The same by what bound each: margins of predictions", ["bound by"], heads)
    for measured_margin in measured_margins(check):
        table.add_row(
            KINDS[measured_margin.kind],
            count(measured_margin.count),
            percent(measured_margin.median),
            percent(measured_margin.p90),
        )
    return table


def _summary(check: PapersCheck) -> Table:
    table = framed_table(
        "Absolute errors of the checks",
        ["paper"],
        ["figures", "median", "90th percentile", "worst", "not predicted"],
    )
    for summary in check.papers:
        table.add_row(*_summary_row(summary))
    return table


def _summary_row(summary: PaperSummary) -> list[str]:
    return [
        summary.paper,
        str(summary.count),
        percent(summary.median_error),
        percent(summary.p90_error),
        percent(summary.worst_error),
        str(summary.not_predicted) if summary.not_predicted else ABSENT,
    ]
