"""`gridwright plan`: the cheapest grids that meet requirements, or those that end a night of jobs in time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridwright.cli.arguments import Json, Reader, SpecFile, read_path, verb
from gridwright.cli.output import LazyResult, Output, check_output, write_output
from gridwright.cli.plan.predict import PAPER, workload_matrix
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, input_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.plan.deadline import DeadlinePlan
    from gridwright.plan.design import Plan
    from gridwright.spec.model import GridSpec


_Listed = TypeVar("_Listed")
OWN_CATALOGUES = ("catalog.yaml", "catalog.csv")
"""What beside a spec overrides the packaged catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """The flags of `gridwright plan`, as they were typed."""

    file: SpecFile = None
    write: Annotated[
        Path | None, typer.Option(metavar="OUT", parser=read_path, help="Save a design as a grid spec.")
    ] = None
    choose: Annotated[
        int,
        typer.Option(min=1, metavar="RANK", help="With --write: which design, by its rank.  [default: 1]"),
    ] = 1
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --write: replace a file that is there.")
    ] = False
    explain: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Hold an instance type against every requirement.")
    ] = None
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", parser=read_path, help="Write a page with charts, too.")
    ] = None
    json: Json = False


def run_plan(flags: PlanFlags) -> ExitStatus:
    """Search the catalogue for the cheapest grids that meet the requirements of FILE.

    Designs are listed by cost: the cheapest, and those on the Pareto front of cost, MB/s per core and
    resilience. Exit status 1 when no grid meets the requirements.

    \b
    Examples:
      gridwright plan requirements.yaml
      gridwright plan requirements.yaml --write grid.yaml
      gridwright plan requirements.yaml --explain m5.8xlarge
      gridwright plan requirements.yaml --html plan.html
    """  # noqa: D301 - \b keeps typer from filling the lines
    _check(flags)
    from gridwright.cli.spec_file import load
    from gridwright.plan.document import plan_document
    from gridwright.plan.search import plan_grids as search

    spec = load(flags.file)
    _check_deadline(flags, spec)
    timed = _deadline_plan(spec)
    if timed is not None:
        return _deadline(flags, timed, spec)
    found = search(spec, explain=flags.explain)
    chosen = _chosen(flags, found.designs)
    if flags.html is not None:
        from gridwright.report.designs.page import plan_page

        write_output(flags.html, plan_page(found, spec.report.lines()))
    output = Output("plan", json=flags.json)
    output.show(LazyResult(document=lambda: plan_document(found), text=lambda: _text(flags, found)))
    if chosen is not None and spec.file is not None:
        _write(flags, chosen.spec, spec.file, output)
    if flags.html is not None:
        output.note(f"page: {flags.html}")
    return ExitStatus.DONE if found.designs else ExitStatus.MISSED


plan = verb(run_plan)


def _check_deadline(flags: PlanFlags, spec: GridSpec) -> None:
    """Refuse what a plan for a deadline has no answer to."""
    if spec.requirements is None or spec.requirements.finish_within is None:
        return
    reader = Reader()
    for name in ("explain", "html"):
        if getattr(flags, name) is not None:
            what = "a plan for a deadline has none"
            reader.problem(
                what, f"--{name}", f"leave it out, or remove finish_within and jobs from {spec.file}"
            )
    reader.finish(flags)


def _deadline(flags: PlanFlags, timed: DeadlinePlan, spec: GridSpec) -> ExitStatus:
    """Show a plan for a deadline, and write the design that is asked for."""
    from gridwright.plan.document import deadline_document

    def text() -> str:
        from gridwright.report.terminal.plan import deadline_text

        return deadline_text(timed)

    output = Output("plan", json=flags.json)
    chosen = _chosen(flags, timed.designs if timed.best is not None else ())
    output.show(LazyResult(document=lambda: deadline_document(timed), text=text))
    if chosen is not None and spec.file is not None:
        _write(flags, chosen.spec, spec.file, output)
    return ExitStatus.DONE if timed.best is not None else ExitStatus.MISSED


def _text(flags: PlanFlags, found: Plan) -> str:
    from gridwright.report.terminal.plan import explanation_text, plan_text

    if flags.explain is not None and found.explanation is not None:
        return explanation_text(found.explanation)
    return plan_text(found)


def _check(flags: PlanFlags) -> None:
    """Refuse, before the search, what could not be written after it."""
    reader = Reader()
    if flags.write is None and flags.choose != 1:
        reader.problem("--choose says which design to write", "--choose", "add --write OUT")
    check_output(reader, "--write", flags.write, overwrite=flags.overwrite)
    check_output(reader, "--html", flags.html)
    reader.finish(flags)


def _chosen(flags: PlanFlags, designs: Sequence[_Listed]) -> _Listed | None:
    if flags.write is None or not designs:
        return None
    if flags.choose > len(designs):
        raise input_error(
            f"there are {len(designs)} designs, and number {flags.choose} is asked for",
            where="--choose",
            remedy=f"Write a rank from 1 to {len(designs)}",
        )
    return designs[flags.choose - 1]


def _write(flags: PlanFlags, chosen: GridSpec, spec_file: Path, output: Output) -> None:
    if flags.write is None:
        return
    from gridwright.plan.grid_spec import spec_text

    write_output(flags.write, spec_text(chosen))
    output.note(f"design {flags.choose} written: {flags.write}")
    own = [spec_file.parent / name for name in OWN_CATALOGUES if (spec_file.parent / name).is_file()]
    if own and spec_file.parent != flags.write.parent.resolve():
        names = ", ".join(str(each) for each in own)
        say(f"note: copy {names} beside it: prices and types of its own came from there")


def _deadline_plan(spec: GridSpec) -> DeadlinePlan | None:
    """The plan for the deadline of a spec; None where it has none. Raises GridwrightError."""
    requirements = spec.requirements
    if requirements is None or (requirements.jobs is None and requirements.finish_within is None):
        return None
    if requirements.jobs is None or requirements.finish_within is None:
        there, absent = ("jobs", "finish_within") if requirements.jobs else ("finish_within", "jobs")
        raise input_error(
            f"requirements.{there} is there without requirements.{absent}",
            where=str(spec.file or "grid.yaml"),
            remedy="Write both, such as jobs: mixed-30 and finish_within: 4h",
        )
    from gridwright.plan.deadline import plan_deadline

    return plan_deadline(spec, _night(requirements.jobs, spec))


def _night(jobs: str, spec: GridSpec) -> BatchWindow:
    """The jobs by their name: a matrix at the papers' size, profiles or a table of jobs as recorded."""
    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import Replay, WorkloadMatrix, default_profiles
    from gridwright.runs.profiles import load_profiles, streams_of

    if jobs.endswith((".parquet", ".csv")):
        return _table_night((spec.file.parent if spec.file else Path.cwd()) / jobs)
    if not jobs.endswith(".json"):
        replay = Replay(scale=PAPER, page_cache="none")
        where = "the profiles that come with gridwright"
        return BatchWindow(_matrix(jobs, spec), default_profiles(), replay, where)
    path = (spec.file.parent if spec.file else Path.cwd()) / jobs
    profiles = load_profiles(path)
    streams = streams_of(profiles, None, where=str(path))
    return BatchWindow(WorkloadMatrix(path.stem, streams), profiles, where=str(path))


def _table_night(path: Path) -> BatchWindow:
    """The jobs of a table, as recorded, in the streams in which they ran."""
    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.workload.imports.job_table import read_jobs

    table = read_jobs(path)
    if table.failed:
        say(f"{path}: {table.failed} jobs that failed are left out")
    return BatchWindow(WorkloadMatrix(path.stem, table.streams), table.profiles, where=str(path))


def _matrix(name: str, spec: GridSpec) -> WorkloadMatrix:
    """The matrix of that name. Raises GridwrightError at its place in the spec."""
    from gridwright.spec.load import problem_at

    try:
        return workload_matrix(name)
    except GridwrightError as error:
        (problem,) = error.problems
        remedy = f"{problem.remedy}, or name a file of profiles (NAME.json) or a table of jobs (NAME.parquet)"
        raise GridwrightError(problem_at(spec, ("requirements", "jobs"), problem.what, remedy)) from None
