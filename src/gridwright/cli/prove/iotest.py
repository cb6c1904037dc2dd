"""`gridwright iotest`: throughput of each library, per core, against its requirement, in named layouts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    AllowDisturbed,
    Json,
    Reader,
    Reads,
    RunsDirectory,
    SpecFile,
    one_of,
    options_of,
    read_flags,
    read_path,
    some_of,
    typed_command,
    verb,
)
from gridwright.cli.output import LazyResult, Output, plain
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error
from gridwright.iotest.options import (
    DEFAULT_PAIRS,
    ENGINES,
    MIN_BLOCK,
    ON_NODE_FAILURE,
    PHASES,
    IotestOptions,
)

if TYPE_CHECKING:
    from gridwright.filesystems.layout import FileLayout, LayoutProblem
    from gridwright.grid.grid import Grid
    from gridwright.iotest.coordinator.coordinator import Fleet
    from gridwright.iotest.options import LibraryTarget
    from gridwright.spec import GridSpec


DEFAULT_UNTIL_STEADY = "70m"
ALONE = "directory"
"""Name of the library where there is no spec to name it."""

Engine = Annotated[
    str,
    typer.Option(metavar="buffered|direct", help="Through the page cache, or past it."),
    Reads(one_of(*ENGINES), instead="direct"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class IotestFlags:
    """The flags of `gridwright iotest`, as they were typed."""

    file: SpecFile = None
    directory: Annotated[
        Path | None,
        # Read as it is: typer would look at the directory, and a hanging mount would hang the command.
        typer.Option(metavar="DIR", parser=read_path, help="Test this directory; needs no grid spec."),
    ] = None
    requires: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="With --directory: what it must give, as 100MB/s/core."),
    ] = None
    streams: Annotated[
        int | None, typer.Option(metavar="N", help="Streams per node.  [default: one per core]")
    ] = None
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="End a phase after this many bytes a stream."),
        Reads(Reader.size, "size_bytes"),
    ] = None
    seconds: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End a phase after this time.  [default: 10s]"),
        Reads(Reader.seconds),
    ] = None
    until_steady: Annotated[
        str | None,
        typer.Option(metavar="[MAX]", help="Go on until the rate is steady, at most MAX.  [MAX: 70m]"),
        Reads(Reader.seconds, "until_steady_s"),
    ] = None
    block: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Bytes per request, 4KiB to 64MiB."),
        Reads(Reader.size, "block_bytes", instead=MIN_BLOCK),
    ] = "64KiB"
    engine: Engine = "buffered"
    queue_depth: Annotated[
        int | None, typer.Option(metavar="N", help="Requests in flight a stream, direct only.  [default: 8]")
    ] = None
    phases: Annotated[
        str,
        typer.Option(metavar="LIST", help="Of write, read, mixed, metadata; in the order to run them."),
        Reads(some_of(*PHASES)),
    ] = "write,read"
    keep: Annotated[bool, typer.Option("--keep", help="Leave the files for a later --phases read.")] = False
    verify: Annotated[bool, typer.Option("--verify", help="Check every block read.")] = False
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the data.  [default: random]")] = None
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Raise the streams 1, 2, 4 ... to 4 per core; find the knee.")
    ] = False
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Each node reads what another one wrote: no client's cache helps.")
    ] = False
    shared_file: Annotated[
        bool, typer.Option("--shared-file", help="All streams of all nodes have parts of one file.")
    ] = False
    on_node_failure: Annotated[
        str,
        typer.Option(metavar="continue|stop", help="What to do when a node fails; its figures are left out."),
        Reads(one_of(*ON_NODE_FAILURE), instead="continue"),
    ] = "continue"
    format: Annotated[
        str,
        typer.Option("--format", metavar="table|iotest.sh", help="iotest.sh: as in published papers."),
        Reads(one_of("table", "iotest.sh")),
    ] = "table"
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Test twice, side by side: in the library's own layout of files, and in this one: spec, "
            "auto, a stripe count, or options of lfs setstripe.",
        ),
    ] = None
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            metavar="N",
            help="Run it N times: median, spread, and the least change these can tell.  [default: 1; with "
            "--layout 6]",
        ),
    ] = None
    allow_disturbed: AllowDisturbed = False
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


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
        for argument, follower in zip(arguments, [*arguments, ""][1:], strict=True)
    ]


def run_iotest(flags: IotestFlags) -> ExitStatus:
    """Measure what each library gives each core, on all nodes of the grid at once.

    Writes and reads files of its own in a fresh directory inside each library and removes them.

    \b
    Examples:
      gridwright iotest grid.yaml
      gridwright iotest grid.yaml --pairs --verify
      gridwright iotest --directory /mnt/scratch --requires 125MB/s/core --engine direct --sweep
      gridwright iotest --directory /mnt/scratch --until-steady 30m
      gridwright iotest --directory /mnt/scratch --repeat 5
      gridwright iotest grid.yaml --layout spec
      gridwright iotest --directory /lustre/data --layout "-E 256M -c 1 -E -1 -c 4"
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.spec_file import load_placed, make_libraries
    from gridwright.grid.grid import Grid
    from gridwright.iotest.library_facts import mistyped
    from gridwright.iotest.recorded import directory_target, library_targets

    reader = Reader()
    read = read_options(flags, reader)
    requires = reader.core_rate("--requires", flags.requires)
    _check_sources(flags, reader)
    options = reader.finish(read)
    if flags.directory is not None:
        target = directory_target(flags.directory, ALONE, requires)
        if problem := mistyped(target):
            raise GridwrightError(problem)
        if flags.layout is not None:
            target = with_layout(target, flags.layout)
        return _measure(flags, options, [target])
    spec = load_placed(flags.file)
    targets = library_targets(spec)
    if flags.layout is not None:
        targets = with_layouts(targets, flags.layout, spec)
    fleet = fleet_to_test(Grid.open(spec), options)
    make_libraries(spec)
    return _measure(flags, options, targets, spec, fleet)


iotest = plain_app()
iotest.command(cls=_OptionalMax)(verb(run_iotest))


def _measure(
    flags: IotestFlags,
    options: IotestOptions,
    targets: Sequence[LibraryTarget],
    spec: GridSpec | None = None,
    fleet: Fleet | None = None,
) -> ExitStatus:
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.prove.progress import iotest_display
    from gridwright.iotest.recorded import record_iotest
    from gridwright.report.page import write_report
    from gridwright.runs.directory import RunDirectory

    run = RunDirectory.create(
        flags.runs,
        spec.name if spec else ALONE,
        command=typed_command(),
        what=["iotest"],
        spec_path=str(spec.file) if spec and spec.file else None,
        spec_text=spec.source_text if spec else None,
        heading=spec.report.lines() if spec else None,
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
    report = write_report(run.path)
    output = Output("iotest", json=flags.json)
    if flags.format == "iotest.sh":
        from gridwright.report.terminal.run import classic_blocks

        output.write(classic_blocks(result, shlex.join(run.record.command)))
        return status

    def text() -> str:
        from gridwright.report.terminal.run import iotest_text

        return f"{iotest_text(result)}run: {run.path}\nreport: {report}"

    output.show(LazyResult(document=lambda: plain(result), text=text))
    return status


def fleet_to_test(grid: Grid, options: IotestOptions) -> Fleet | None:
    """The nodes to test; None for this machine alone. Raises GridwrightError."""
    from gridwright.cli.spec_file import note_this_machine
    from gridwright.iotest.coordinator.coordinator import fleet_of

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
    values = read_flags(flags, reader)
    if values["repeat"] is None:
        values["repeat"] = 1 if flags.layout is None else DEFAULT_PAIRS
    try:
        options = options_of(IotestOptions, values)
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
    if flags.layout is not None and flags.format != "table":
        reader.problem(
            "the blocks of iotest.sh have no place for two layouts",
            "--format",
            "leave out --format or --layout",
        )
    if flags.json and flags.format != "table":
        reader.problem("--json and --format exclude each other", "--format", "leave out one")


FLAG = "--layout"
STATED = "spec"
"""The layout that each library has by the spec: stated there, else chosen by the model."""
CHOSEN = "auto"
"""The layout that the model chooses, whatever the spec states."""


def with_layouts(targets: Sequence[LibraryTarget], name: str, spec: GridSpec) -> list[LibraryTarget]:
    """The libraries that can be tested in the layout of this name; the others are named, and left out.

    Raises GridwrightError (status INPUT) where there is none, or a library cannot have the layout.
    """
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts
    from gridwright.iotest.options import TriedLayout

    layouts = _layouts(name, spec)
    tried: list[LibraryTarget] = []
    passed_over: list[Problem] = []
    problems: list[Problem] = []
    for target in targets:
        filesystem = spec.filesystems[target.filesystem or ""]
        kind = kind_of(filesystem)
        layout = layouts.get(target.library)
        if not isinstance(kind, Layouts):
            passed_over.append(_has_none(target, kind.title))
        elif layout is None:
            passed_over.append(_not_chosen(target))
        else:
            problems += [
                _of_library(target, layout_problem) for layout_problem in kind.layout_problems(layout)
            ]
            tried.append(replace(target, layout=TriedLayout(filesystem.type, name, layout)))
    if problems or not tried:
        raise GridwrightError(*(problems or passed_over), status=ExitStatus.INPUT)
    for problem in passed_over:
        say(f"not tested: {problem.what}")
    return tried


def with_layout(target: LibraryTarget, name: str) -> LibraryTarget:
    """A directory without a spec, to be tested in the layout of this name.

    Raises GridwrightError: status INPUT where its file system has no layouts, or not this one, ENVIRONMENT
    where it does not answer.
    """
    from gridwright.bounded import Hangs, call_bounded
    from gridwright.filesystems import all_kinds
    from gridwright.filesystems.kind import Layouts
    from gridwright.filesystems.layout import EXAMPLES, read_layout_text
    from gridwright.filesystems.mounts import describe_mount
    from gridwright.iotest.library_facts import LOOK_S
    from gridwright.iotest.options import TriedLayout

    if name in {STATED, CHOSEN}:
        raise input_error(
            f"a directory has no grid spec, by which {name} is known",
            where=FLAG,
            remedy=f"write a layout: {EXAMPLES}",
        )
    layout = read_layout_text(name, FLAG)
    try:
        mount = call_bounded(partial(describe_mount, Path(target.path)), LOOK_S)
    except (Hangs, OSError) as error:
        raise environment_error(
            f"which file system {target.path} lies on is not told: {error}",
            where=target.path,
            remedy="check the mount (`mount`, `dmesg`)",
        ) from error
    kinds = (kind for kind in all_kinds() if mount.filesystem_type in kind[1].kernel_types)
    found = next(kinds, None)
    if found is None or not isinstance(found[1], Layouts):
        raise GridwrightError(_has_none(target, mount.filesystem_type), status=ExitStatus.INPUT)
    if wrong := found[1].layout_problems(layout):
        raise GridwrightError(*(_of_library(target, each) for each in wrong), status=ExitStatus.INPUT)
    return replace(target, layout=TriedLayout(found[0], name, layout))


def _layouts(name: str, spec: GridSpec) -> Mapping[str, FileLayout]:
    """The layout of this name for each library. Raises GridwrightError."""
    from gridwright.filesystems.layout import read_layout_text

    if name not in {STATED, CHOSEN}:
        return dict.fromkeys(map(str, spec.libraries), read_layout_text(name, FLAG))
    from gridwright.model.grid import library_layouts

    if name == CHOSEN:
        left_open = {
            key: library.model_copy(update={"layout": []}) for key, library in spec.libraries.items()
        }
        spec = spec.model_copy(update={"libraries": left_open})
    return {library: choice.layout for library, choice in library_layouts(spec).items()}


def _has_none(target: LibraryTarget, filesystem: str) -> Problem:
    return Problem(
        f"library {target.library}: on {filesystem} nobody chooses over which targets files lie",
        where=target.path,
        remedy=f"leave out {FLAG}, or test a library on a file system that has layouts",
    )


def _not_chosen(target: LibraryTarget) -> Problem:
    from gridwright.filesystems.layout import EXAMPLES

    return Problem(
        f"library {target.library}: the grid spec states no layout, and too little for one to be chosen",
        where=target.path,
        remedy=f"give it `layout:` there, or write one: {FLAG} {EXAMPLES}",
    )


def _of_library(target: LibraryTarget, wrong: LayoutProblem) -> Problem:
    problem = wrong.problem
    where = f"{FLAG}: {problem.where}" if problem.where else FLAG
    return replace(problem, what=f"library {target.library}: {problem.what}", where=where)
