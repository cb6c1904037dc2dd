"""The model against the papers on the terminal: every check, what was missed and why, the summary."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from gridwright.model.papers import PAPERS, PaperRow, PapersCheck
from gridwright.report.papers.page import figures_table, margins_table, summary_table
from gridwright.report.papers.words import by_reason, reach_text
from gridwright.report.table import Column
from gridwright.report.terminal.frame import framed, printed

_FIGURES: dict[str, str | Column] = {
    "figure": Column("figure", words=True, wrap="fold"),
    "unit": "unit",
    "predicted": "predicted",
    "published": "published",
    "error": "error",
    "": "",
}


@printed
def papers_text(console: Console, check: PapersCheck) -> None:
    """Print predicted beside published, paper by paper; figures that do not count are only in --json."""
    for paper, title in PAPERS.items():
        rows = [row for row in check.of("check") if row.paper == paper and row.error is not None]
        if rows:
            console.print(framed(figures_table(rows).only(_FIGURES, f"{paper}: {title}")))
    _print_reasons(console, "missed, with the likely reason", check.missed)
    without = [row for row in check.of("check") if row.predicted is None]
    _print_reasons(console, "not predicted", without)
    console.print(framed(summary_table(check).without("")))
    console.print(reach_text(check), markup=False)
    console.print(framed(margins_table(check)))
    hidden = len(check.of("context"))
    console.print(f"{hidden} more figures do not count, and --json lists them with the reason", markup=False)


def _print_reasons(console: Console, title: str, rows: Iterable[PaperRow]) -> None:
    for reason, figures in by_reason(rows).items():
        console.print(f"{title}: {'; '.join(figures)}", markup=False)
        console.print(f"  {reason}", style="dim", markup=False)
