"""`gridwright explain`: why a job waits."""

from __future__ import annotations

import typer

from gridwright.cli.arguments import Json
from gridwright.cli.grid_file import GridFile, JobName


def explain(job: JobName, grid: GridFile = None, json: Json = False) -> None:
    """Say why a job waits: all that it needs, what there is of it, and whether that fits.

    Example: gridwright explain 17
    """
    import json as json_module
    from dataclasses import asdict

    from gridwright.cli.grid_file import open_grid

    scheduler = open_grid(grid).scheduler
    explanation = scheduler.explain(job)
    if json:
        document = {"schema": 1, "command": "explain", **asdict(explanation)}
        for shown, each in zip(document["candidates"], explanation.candidates, strict=True):
            shown["fits"] = each.fits
        typer.echo(json_module.dumps(document, indent=2))
        return
    from gridwright.cli.work.jobs_table import printable
    from gridwright.report.terminal.frame import framed_table, terminal_console

    typer.echo(printable(explanation.summary))
    if any(each.requirements for each in explanation.candidates):
        table = framed_table("", ["place", "requirement", "required", "provided", "fits"], [])
        for candidate in explanation.candidates:
            for requirement in candidate.requirements:
                fits = "[green]yes[/]" if requirement.fits else "[bold red]no[/]"
                table.add_row(
                    candidate.place, requirement.name, requirement.required, requirement.provided, fits
                )
            table.add_section()
        terminal_console().print(table)
