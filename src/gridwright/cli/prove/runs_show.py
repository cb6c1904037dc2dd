"""What `gridwright runs` prints."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path

import typer

from gridwright.report.terminal import run as terminal
from gridwright.runs.compare import compare_runs
from gridwright.runs.directory import list_runs, load_run
from gridwright.runs.find import find_run


def show_list(runs: Path, *, json: bool) -> None:
    """List runs."""
    found = list_runs(runs)
    if json:
        entries = [
            {
                "run": str(entry.path),
                "name": entry.run.name,
                "started": entry.run.started,
                "finished": entry.run.finished,
                "status": entry.run.status,
                "met": entry.run.met,
            }
            for entry in found
        ]
        typer.echo(json_module.dumps({"schema": 1, "command": "runs list", "runs": entries}, indent=2))
    elif found:
        terminal.print_runs(found)
    else:
        typer.echo(f"no runs in {runs}", err=True)


def show_run(runs: Path, name: str, *, json: bool) -> None:
    """Show one run."""
    loaded = load_run(find_run(runs, name), with_samples=False)
    if json:
        document = {
            "schema": 1,
            "command": "runs show",
            "path": str(loaded.path),
            "run": loaded.run.model_dump(mode="json", by_alias=True),
            "iotest": loaded.iotest.model_dump(mode="json", by_alias=True) if loaded.iotest else None,
            "workload": loaded.workload.model_dump(mode="json", by_alias=True) if loaded.workload else None,
        }
        typer.echo(json_module.dumps(document, indent=2))
        return
    terminal.print_run(loaded)


def show_comparison(runs: Path, a: str, b: str, *, json: bool) -> None:
    """Compare two runs."""
    one, other = load_run(find_run(runs, a)), load_run(find_run(runs, b))
    comparisons = compare_runs(one, other)
    if json:
        document = {
            "schema": 1,
            "command": "runs compare",
            "a": str(one.path),
            "b": str(other.path),
            "figures": [asdict(comparison) for comparison in comparisons],
        }
        typer.echo(json_module.dumps(document, indent=2))
        return
    terminal.print_comparison(one, other, comparisons)
