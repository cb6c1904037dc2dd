"""What `gridwright prove` does with its flags."""

from __future__ import annotations

import contextlib
import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.prove.iotest_run import IotestFlags, fleet_to_test, read_options, typed_command
from gridwright.cli.prove.progress import iotest_display
from gridwright.cli.prove.workload_progress import workload_display
from gridwright.cli.prove.workload_run import WorkloadFlags, read_workload_options
from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.prove.proof import Parts, Places, Proof

PARTS = ("doctor", "iotest", "workload")


def run_prove(
    file: Path | None,
    iotest: IotestFlags,
    workload: WorkloadFlags,
    *,
    skip: Sequence[str],
    runs: Path,
    json: bool,
) -> ExitStatus:
    """Prove the grid and print the verdict; returns the exit status. Raises GridwrightError."""
    from gridwright.grid.grid import Grid
    from gridwright.prove.proof import Displays, prove

    parts = read_parts(iotest, workload, skip)
    spec = load_placed(file)
    places = places_of(Grid.open(spec), parts)
    with contextlib.ExitStack() as displays:
        shown = Displays(
            doctor=[],
            iotest=[_Lazy(iotest_display, displays)],
            workload=[_Lazy(workload_display, displays)],
        )
        with stop_on_signals() as stop:
            proof = prove(
                spec, parts, runs=runs, command=typed_command(), displays=shown, stop=stop, places=places
            )
    if json:
        typer.echo(_document(proof))
    else:
        _print(proof)
    return proof.status


def read_parts(iotest: IotestFlags, workload: WorkloadFlags, skip: Sequence[str]) -> Parts:
    """Check the flags of the parts that are not skipped, together. Raises GridwrightError."""
    from gridwright.prove.proof import Parts

    reader = Reader()
    for name in skip:
        if name not in PARTS:
            reader.choice(name, PARTS, "--skip")
    if set(skip) >= set(PARTS):
        reader.problem("nothing is left to be proved", "--skip", "leave out one part, not all")
    options = read_options(iotest, reader)
    mixed = None if "workload" in skip else read_workload_options(workload, reader)
    doctor = "doctor" not in skip
    return reader.finish(Parts(doctor=doctor, iotest=None if "iotest" in skip else options, workload=mixed))


def places_of(grid: Grid, parts: Parts) -> Places:
    """Where each part of a proof runs. Raises GridwrightError where the grid is not up."""
    from gridwright.doctor.access import access_to
    from gridwright.prove.proof import Places
    from gridwright.workload.on_grid import on_grid

    if parts.iotest is None and grid.spec.is_bought:
        note_this_machine(grid.spec)
    return Places(
        doctor=access_to(grid) if parts.doctor else None,
        iotest=fleet_to_test(grid, parts.iotest) if parts.iotest else None,
        workload=on_grid(grid) if parts.workload else None,
    )


class _Lazy:
    """A display that opens with its first event: two live ones would fight for the terminal."""

    def __init__(self, make: Any, displays: contextlib.ExitStack) -> None:  # noqa: ANN401 - either display
        self._make = make
        self._displays = displays
        self._display: Any = None

    def take(self, event: dict[str, Any]) -> None:
        if self._display is None:
            self._displays.close()
            self._display = self._make()
            self._displays.callback(self._display.close)
        self._display.take(event)


def _print(proof: Proof) -> None:
    from gridwright.report.terminal import run as terminal
    from gridwright.report.terminal.workload import print_workload

    terminal.print_checks(proof.results.checks)
    if proof.results.iotest is not None:
        terminal.print_iotest(proof.results.iotest)
    if proof.results.workload is not None:
        print_workload(proof.results.workload)
    terminal.print_verdict(proof.run)
    typer.echo(f"run: {proof.run}")
    typer.echo(f"report: {proof.report}")


def _document(proof: Proof) -> str:
    iotest, workload = (
        part.model_dump(mode="json", by_alias=True) if part is not None else None
        for part in (proof.results.iotest, proof.results.workload)
    )
    return json_module.dumps(
        {
            "schema": 1,
            "command": "prove",
            "run": str(proof.run),
            "report": str(proof.report),
            "status": proof.ended,
            "met": proof.results.met,
            "doctor": [each.model_dump(mode="json") for each in proof.results.checks],
            "iotest": iotest,
            "workload": workload,
            "findings": [each.model_dump(mode="json") for each in proof.results.findings],
        },
        indent=2,
    )
