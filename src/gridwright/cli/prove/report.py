"""`gridwright report`: builds the HTML report of a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, Reader, RunName, RunsDirectory, read_path
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.output_file import check_output


def report(
    run: RunName = "last",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=read_path, help="Where to write it.  [default: RUN/report.html]"),
    ] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Build the HTML report of a run again.

    The run may be finished or interrupted; the report is one file that opens offline.
    """
    from gridwright.report.page import write_report
    from gridwright.runs.place import find_run

    reader = Reader()
    check_output(reader, "--out", out)
    path = write_report(find_run(runs, reader.finish(run)), out)
    Output("report", json=json).show(
        LazyResult(document=lambda: {"report": str(path)}, text=lambda: f"report: {path}"), indent=None
    )
