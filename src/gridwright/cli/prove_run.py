"""What `gridwright prove` does with its flags."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.iotest_run import IotestFlags, load, read_options, typed_command
from gridwright.cli.progress import iotest_display
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.prove.proof import Proof


def run_prove(
    file: Path | None, *, seconds: str, engine: str, phases: str, runs: Path, json: bool
) -> ExitStatus:
    """Prove the grid and print the verdict; returns the exit status. Raises GridwrightError."""
    from gridwright.prove.proof import prove
    from gridwright.report import terminal

    reader = Reader()
    flags = IotestFlags(file=file, seconds=seconds, engine=engine, phases=phases, runs=runs)
    options = reader.finish(read_options(flags, reader))
    spec = load(file)
    display = iotest_display()
    try:
        with stop_on_signals() as stop:
            proof = prove(spec, options, runs=runs, command=typed_command(), observers=[display], stop=stop)
    finally:
        display.close()
    if json:
        typer.echo(_document(proof))
        return proof.status
    terminal.print_iotest(proof.iotest)
    terminal.print_verdict(proof.run)
    typer.echo(f"run: {proof.run}")
    typer.echo(f"report: {proof.report}")
    return proof.status


def _document(proof: Proof) -> str:
    iotest = proof.iotest.model_dump(mode="json", by_alias=True)
    return json_module.dumps(
        {
            "schema": 1,
            "command": "prove",
            "run": str(proof.run),
            "report": str(proof.report),
            "status": proof.iotest.status,
            "met": proof.iotest.met,
            "iotest": iotest,
            "findings": iotest["findings"],
        },
        indent=2,
    )
