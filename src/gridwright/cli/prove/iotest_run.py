"""What `gridwright iotest` does with its flags."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.prove.progress import iotest_display
from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import ExitStatus, GridwrightError, input_error
from gridwright.iotest.options import ENGINES, MIN_BLOCK, ON_NODE_FAILURE, PHASES, IotestOptions

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.iotest.coordinator import Fleet

FORMATS = ("table", "iotest.sh")
ALONE = "directory"
"""Name of the library where there is no spec to name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IotestFlags:
    """The flags as they were typed."""

    file: Path | None
    directory: Path | None = None
    requires: str | None = None
    streams: int | None = None
    size: str | None = None
    seconds: str | None = None
    until_steady: str | None = None
    block: str = "64KiB"
    engine: str = "buffered"
    queue_depth: int | None = None
    phases: str = "write,read"
    keep: bool = False
    verify: bool = False
    seed: int | None = None
    sweep: bool = False
    pairs: bool = False
    shared_file: bool = False
    on_node_failure: str = "continue"
    format: str = "table"
    runs: Path
    json: bool = False


def run_iotest(flags: IotestFlags) -> ExitStatus:
    """Run the test and print its result; returns the exit status. Raises GridwrightError."""
    from gridwright.grid.grid import Grid
    from gridwright.iotest.recorded import record_iotest
    from gridwright.iotest.targets import directory_target, library_targets
    from gridwright.report.terminal import run as terminal
    from gridwright.runs.directory import RunDirectory

    reader = Reader()
    options = read_options(flags, reader)
    requires = reader.core_rate("--requires", flags.requires)
    _check_sources(flags, reader)
    options = reader.finish(options)
    spec, fleet, targets = None, None, []
    if flags.directory is not None:
        targets = [directory_target(flags.directory, ALONE, requires)]
    else:
        spec = load_placed(flags.file)
        fleet = fleet_to_test(Grid.open(spec), options)
        targets = library_targets(spec)
    run = RunDirectory.create(
        flags.runs,
        spec.name if spec else ALONE,
        command=typed_command(),
        what=["iotest"],
        spec_path=str(spec.file) if spec and spec.file else None,
        spec_text=spec.source_text if spec else None,
    )
    display = iotest_display()
    try:
        with stop_on_signals() as stop:
            result, status = record_iotest(
                run,
                targets,
                options,
                observers=[display],
                stop=stop,
                silenced=spec.silence if spec else (),
                fleet=fleet,
            )
    finally:
        display.close()
    if flags.json:
        typer.echo(result.model_dump_json(by_alias=True, indent=2))
    elif flags.format == "iotest.sh":
        from gridwright.report.iotest_sh import classic_blocks

        typer.echo(classic_blocks(result, shlex.join(run.record.command)), nl=False)
    else:
        terminal.print_iotest(result)
        typer.echo(f"run: {run.path}")
    return status


def fleet_to_test(grid: Grid, options: IotestOptions) -> Fleet | None:
    """The nodes to test; None for this machine alone. Raises GridwrightError."""
    from gridwright.iotest.fleet import fleet_of

    fleet = fleet_of(grid)
    if fleet is None:
        note_this_machine(grid.spec)
        if options.pairs:
            raise input_error(
                "--pairs lets each node read what another one wrote, and one node is tested",
                where="--pairs",
                remedy="leave out --pairs",
            )
    return fleet


def read_options(flags: IotestFlags, reader: Reader) -> IotestOptions | None:
    """Check the flags together; None if the reader has found something wrong."""
    phases = tuple(name.strip() for name in flags.phases.split(",") if name.strip())
    for value, allowed, flag in [
        (flags.engine, ENGINES, "--engine"),
        (flags.format, FORMATS, "--format"),
        (flags.on_node_failure, ON_NODE_FAILURE, "--on-node-failure"),
        *((phase, PHASES, "--phases") for phase in phases),
    ]:
        if value not in allowed:
            reader.choice(value, allowed, flag)
    size = reader.size("--size", flags.size)
    seconds = reader.seconds("--seconds", flags.seconds)
    until_steady = reader.seconds("--until-steady", flags.until_steady)
    block = reader.size("--block", flags.block)
    try:
        # What could not be read stands aside, so that the rest is checked, too.
        options = IotestOptions(
            streams=flags.streams,
            size_bytes=size,
            seconds=seconds,
            until_steady_s=until_steady,
            block_bytes=block if block is not None else MIN_BLOCK,
            engine="buffered" if flags.engine == "buffered" else "direct",
            queue_depth=flags.queue_depth,
            phases=phases,
            keep=flags.keep,
            verify=flags.verify,
            seed=flags.seed,
            sweep=flags.sweep,
            pairs=flags.pairs,
            shared_file=flags.shared_file,
            on_node_failure="stop" if flags.on_node_failure == "stop" else "continue",
        )
    except GridwrightError as error:
        reader.add(error.problems)
        return None
    return None if reader.wrong else options


def _check_sources(flags: IotestFlags, reader: Reader) -> None:
    if flags.directory is not None and flags.file is not None:
        reader.problem(
            "both a grid spec and --directory are given",
            str(flags.file),
            "leave out one: the spec names its directories itself",
        )
    if flags.pairs and flags.directory is not None:
        reader.problem(
            "--pairs lets each node read what another one wrote, and --directory tests one node",
            "--pairs",
            "leave out --pairs, or name a grid spec of several nodes",
        )
    if flags.requires is not None and flags.directory is None:
        reader.problem(
            "--requires goes with --directory",
            "--requires",
            "with a grid spec, give each library its `requires:`",
        )
    if flags.json and flags.format != "table":
        reader.problem("--json and --format exclude each other", "--format", "leave out one")


def typed_command() -> list[str]:
    """The command as it was typed, to repeat it."""
    return ["gridwright", *sys.argv[1:]]
