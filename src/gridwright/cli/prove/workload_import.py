"""What `gridwright workload import` does."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import typer

from gridwright.cli.prove.iotest_run import typed_command
from gridwright.errors import ExitStatus


def run_import(logs: Sequence[Path], *, node: str | None, runs: Path, json: bool) -> ExitStatus:
    """Read SAS logs into a run and print its tables; returns the exit status. Raises GridwrightError."""
    from gridwright.report.terminal.workload import print_workload
    from gridwright.report.write import write_report
    from gridwright.runs.directory import RunDirectory
    from gridwright.workload.imported import import_logs
    from gridwright.workload.session import judged

    imported = import_logs(logs, node=node or socket.gethostname())
    run = RunDirectory.create(runs, "sas-logs", command=typed_command(), what=["workload import"])
    for event in imported:
        run.take(event)
    result = run.finish("complete").workload
    if result is None:
        raise RuntimeError("an import left no record of it")
    report = write_report(run.path)
    if json:
        typer.echo(result.model_dump_json(by_alias=True, indent=2))
    else:
        print_workload(result)
        typer.echo(f"run: {run.path}")
        typer.echo(f"report: {report}")
    return judged(ExitStatus.DONE, result)
