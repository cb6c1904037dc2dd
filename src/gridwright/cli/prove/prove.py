"""`gridwright prove`: whether the grid gives what its spec requires."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    AllowDisturbed,
    Json,
    Reader,
    Repeat,
    RunsDirectory,
    SpecFile,
    part_of,
    typed_command,
    verb,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.prove.iotest import Engine, IotestFlags, fleet_to_test, read_options
from gridwright.cli.prove.workload import WorkloadFlags, read_workload_options, refuse_wide_launches
from gridwright.errors import ExitStatus, environment_error

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.prove.proof import Parts, Proof, RunPlaces
    from gridwright.spec import GridSpec

PARTS = ("doctor", "iotest", "workload")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveFlags:
    """The flags of `gridwright prove`, as they were typed: a few of those of its parts, by the same names."""

    file: SpecFile = None
    seconds: Annotated[str, typer.Option(metavar="TIME", help="How long each phase of iotest lasts.")] = "10s"
    engine: Engine = "buffered"
    phases: Annotated[
        str, typer.Option(metavar="LIST", help="Phases of iotest, in the order to run them.")
    ] = "write,read,mixed,metadata"
    matrix: Annotated[str, typer.Option(metavar="NAME|FILE", help="Matrix of the workload.")] = "quick"
    scale: Annotated[str, typer.Option(metavar="NAME", help="Scale of the workload: tiny to paper.")] = (
        "small"
    )
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="PART", help="Leave out doctor, iotest or workload.")
    ] = None
    repeat: Repeat = 1
    allow_disturbed: AllowDisturbed = False
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


def run_prove(flags: ProveFlags) -> ExitStatus:
    """Test and judge a grid, and write it up.

    Runs iotest on every library, then the mixed workload, and leaves a run directory with an
    HTML report.

    \b
    Examples:
      gridwright prove grid.yaml
      gridwright prove grid.yaml --engine direct --seconds 1m
      gridwright prove grid.yaml --matrix mixed-30 --scale medium
      gridwright prove grid.yaml --skip workload
      gridwright prove grid.yaml --repeat 5
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.prove.progress import iotest_display, workload_display
    from gridwright.cli.spec_file import load_placed, make_libraries
    from gridwright.grid.grid import Grid
    from gridwright.prove.proof import Displays, prove

    parts = read_parts(flags)
    spec = load_placed(flags.file)
    places = places_of(Grid.open(spec), parts)
    if parts.workload is not None:
        refuse_wide_launches(flags.matrix, parts.workload, places.workload)
    make_libraries(spec)
    if parts.iotest is not None and spec.is_one_machine:
        _refuse_closed(spec)
    with contextlib.ExitStack() as displays:
        shown = Displays(
            doctor=[],
            iotest=[_Lazy(iotest_display, displays)],
            workload=[_Lazy(workload_display, displays)],
        )
        with stop_on_signals() as stop:
            proof = prove(
                spec,
                parts,
                runs=flags.runs,
                command=typed_command(),
                displays=shown,
                stop=stop,
                places=places,
            )
    output = Output("prove", json=flags.json)
    output.show(LazyResult(document=lambda: _document(proof), text=lambda: _text(proof)))
    return proof.status


prove = verb(run_prove)


def _refuse_closed(spec: GridSpec) -> None:
    """Refuse to prove what this user may not write: no verdict would come of it. Raises GridwrightError."""
    from gridwright.filesystems.library_directories import closed_to_user

    if closed := closed_to_user(spec):
        raise environment_error(
            f"{closed} is read-only for you, and a proof writes to all libraries",
            where=str(spec.file),
            remedy="run it as root, or as who may write there; or test a directory of your own: "
            "gridwright iotest --directory DIR",
        )


def read_parts(flags: ProveFlags) -> Parts:
    """Check the flags of the parts that are not skipped, together. Raises GridwrightError."""
    from gridwright.prove.proof import Parts

    reader = Reader()
    skip = flags.skip or []
    for name in skip:
        if name not in PARTS:
            reader.choice(name, PARTS, "--skip")
    if set(skip) >= set(PARTS):
        reader.problem("nothing is left to be proved", "--skip", "leave out one part, not all")
    iotest = read_options(part_of(IotestFlags, flags), reader)
    workload = None if "workload" in skip else read_workload_options(part_of(WorkloadFlags, flags), reader)
    return reader.finish(
        Parts(doctor="doctor" not in skip, iotest=None if "iotest" in skip else iotest, workload=workload)
    )


def places_of(grid: Grid, parts: Parts) -> RunPlaces:
    """Where each part of a proof runs. Raises GridwrightError where the grid is not up."""
    from gridwright.cli.spec_file import note_this_machine
    from gridwright.doctor.access import access_to
    from gridwright.prove.proof import RunPlaces
    from gridwright.workload.session import on_grid

    if parts.iotest is None and grid.is_this_machine:
        note_this_machine(grid.spec)
    return RunPlaces(
        doctor=access_to(grid) if parts.doctor else None,
        iotest=fleet_to_test(grid, parts.iotest) if parts.iotest else None,
        workload=on_grid(grid, parts.workload.matrix) if parts.workload else None,
    )


class _Lazy:
    """A display that opens with its first event: two live ones would fight for the terminal."""

    def __init__(self, make: Any, displays: contextlib.ExitStack) -> None:  # noqa: ANN401 - either display
        self._make = make
        self._displays = displays
        self._display: Any = None

    def take(self, event: object) -> None:
        if self._display is None:
            self._displays.close()
            self._display = self._make()
            self._displays.callback(self._display.close)
        self._display.take(event)


def _text(proof: Proof) -> str:
    from gridwright.report.terminal.run import checks_text, iotest_text, verdict_text, workload_text
    from gridwright.runs.directory import load_run

    results = proof.results
    return "".join(
        [
            checks_text(results.checks),
            iotest_text(results.iotest) if results.iotest is not None else "",
            workload_text(results.workload) if results.workload is not None else "",
            verdict_text(load_run(proof.run, with_samples=False)),
            f"run: {proof.run}\nreport: {proof.report}",
        ]
    )


def _document(proof: Proof) -> dict[str, Any]:
    iotest, workload = (
        part.model_dump(mode="json", by_alias=True) if part is not None else None
        for part in (proof.results.iotest, proof.results.workload)
    )
    return {
        "run": str(proof.run),
        "report": str(proof.report),
        "status": proof.ended,
        "verdict": proof.results.verdict,
        "met": proof.results.met,
        "grade": proof.grade,
        "not_shown": proof.not_shown,
        "doctor": [check.model_dump(mode="json") for check in proof.results.checks],
        "iotest": iotest,
        "workload": workload,
        "findings": [finding.model_dump(mode="json") for finding in proof.results.findings],
    }
