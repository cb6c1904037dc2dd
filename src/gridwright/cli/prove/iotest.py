"""`gridwright iotest`: throughput of each library, per core, against its requirement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunsDirectory, SpecFile
from gridwright.cli.verbs import plain_app

DEFAULT_UNTIL_STEADY = "70m"

Directory = Annotated[
    Path | None,
    # Read as it is: typer would look at the directory, and a hanging mount would hang the command.
    typer.Option(metavar="DIR", parser=Path, help="Test this directory; needs no grid spec."),
]
Requires = Annotated[
    str | None, typer.Option(metavar="RATE", help="With --directory: what it must give, as 100MB/s/core.")
]
Streams = Annotated[int | None, typer.Option(metavar="N", help="Streams per node.  [default: one per core]")]
Size = Annotated[str | None, typer.Option(metavar="SIZE", help="End a phase after this many bytes a stream.")]
Seconds = Annotated[
    str | None, typer.Option(metavar="TIME", help="End a phase after this time.  [default: 10s]")
]
UntilSteady = Annotated[
    str | None,
    typer.Option(metavar="[MAX]", help="Go on until the rate is steady, at most MAX.  [MAX: 70m]"),
]
Block = Annotated[str, typer.Option(metavar="SIZE", help="Bytes per request, 4KiB to 64MiB.")]
Engine = Annotated[str, typer.Option(metavar="buffered|direct", help="Through the page cache, or past it.")]
QueueDepth = Annotated[
    int | None, typer.Option(metavar="N", help="Requests in flight a stream, direct only.  [default: 8]")
]
Phases = Annotated[
    str, typer.Option(metavar="LIST", help="Of write, read, mixed, metadata; in the order to run them.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the files for a later --phases read.")]
Verify = Annotated[bool, typer.Option("--verify", help="Check every block read.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of the data.  [default: random]")]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Raise the streams 1, 2, 4 ... to 4 per core; find the knee.")
]
Pairs = Annotated[
    bool, typer.Option("--pairs", help="Each node reads what another one wrote: no client's cache helps.")
]
SharedFile = Annotated[
    bool, typer.Option("--shared-file", help="All streams of all nodes have parts of one file.")
]
OnNodeFailure = Annotated[
    str, typer.Option(metavar="continue|stop", help="What to do when a node fails; its figures are left out.")
]
Format = Annotated[
    str, typer.Option("--format", metavar="table|iotest.sh", help="iotest.sh: as in published papers.")
]


iotest = plain_app()


class _OptionalMax(TyperCommand):
    """Gives `--until-steady` its default where no time follows it: typer has no optional values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class that typer hides
        return super().parse_args(ctx, with_default_longest(args))


def with_default_longest(arguments: list[str]) -> list[str]:
    """The arguments, each `--until-steady` with a time."""
    return [
        f"--until-steady={DEFAULT_UNTIL_STEADY}"
        if argument == "--until-steady" and not follower[:1].isdigit()
        else argument
        for argument, follower in zip(arguments, [*arguments[1:], ""], strict=True)
    ]


@iotest.command(cls=_OptionalMax)
def _iotest(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    file: SpecFile = None,
    directory: Directory = None,
    requires: Requires = None,
    streams: Streams = None,
    size: Size = None,
    seconds: Seconds = None,
    until_steady: UntilSteady = None,
    block: Block = "64KiB",
    engine: Engine = "buffered",
    queue_depth: QueueDepth = None,
    phases: Phases = "write,read",
    keep: Keep = False,
    verify: Verify = False,
    seed: Seed = None,
    sweep: Sweep = False,
    pairs: Pairs = False,
    shared_file: SharedFile = False,
    on_node_failure: OnNodeFailure = "continue",
    format_: Format = "table",
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Measure what each library gives each core, on all nodes of the grid at once.

    Writes and reads files of its own in a fresh directory inside each library and removes them.

    \b
    Examples:
      gridwright iotest grid.yaml
      gridwright iotest grid.yaml --pairs --verify
      gridwright iotest --directory /mnt/scratch --requires 125MB/s/core --engine direct --sweep
      gridwright iotest --directory /mnt/scratch --until-steady 30m
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.prove.iotest_run import IotestFlags, run_iotest

    flags = IotestFlags(
        file=file,
        directory=directory,
        requires=requires,
        streams=streams,
        size=size,
        seconds=seconds,
        until_steady=until_steady,
        block=block,
        engine=engine,
        queue_depth=queue_depth,
        phases=phases,
        keep=keep,
        verify=verify,
        seed=seed,
        sweep=sweep,
        pairs=pairs,
        shared_file=shared_file,
        on_node_failure=on_node_failure,
        format=format_,
        runs=runs,
        json=json,
    )
    raise typer.Exit(run_iotest(flags))
