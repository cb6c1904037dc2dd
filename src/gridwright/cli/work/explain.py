"""`gridwright explain`: why a job waits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobName, open_grid
from gridwright.cli.output import LazyResult, Output

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobExplanation


def explain(job: JobName, grid: GridFile = None, json: Json = False) -> None:
    """Say why a job waits: all that it needs, what there is of it, and whether that fits.

    Example: gridwright explain 17
    """
    explanation = open_grid(grid).scheduler.explain(job)
    Output("explain", json=json).show(
        LazyResult(document=lambda: _document(explanation), text=lambda: _text(explanation))
    )


def _document(explanation: JobExplanation) -> dict[str, Any]:
    document = asdict(explanation)
    for shown, each in zip(document["candidates"], explanation.candidates, strict=True):
        shown["fits"] = each.fits
    return document


def _text(explanation: JobExplanation) -> str:
    from gridwright.cli.work.jobs_table import printable
    from gridwright.report.table import Cell, columns_of, rows_table
    from gridwright.report.terminal.frame import text_of

    summary = f"{printable(explanation.summary)}\n"
    if not any(each.requirements for each in explanation.candidates):
        return summary
    columns = columns_of(["place", "requirement", "required", "provided", "fits"])
    candidates = (
        [
            (
                candidate.place,
                each.name,
                each.required,
                each.provided,
                Cell("yes", "met") if each.fits else Cell("no", "missed"),
            )
            for each in candidate.requirements
        ]
        for candidate in explanation.candidates
    )
    return summary + text_of(rows_table("", columns, *candidates))
