"""`gridwright predict`: what a grid will deliver, and what binds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, Reader, RunsDirectory, SpecFile, read_path, verb
from gridwright.cli.output import LazyResult, Output, check_output, write_output
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.model.grid import GridModel
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.runs.profiles import Profiles

EVERY_NODE = frozenset({"mixed-20"})
"""Matrices whose streams run on every node: 003.wl.concurrent counts 20 streams on each."""
PAPER = "paper"
_BY = 10.0
"""Percent that --sensitivity changes an input by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictFlags:
    """The flags of `gridwright predict`, as they were typed."""

    file: SpecFile = None
    streams: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Streams on each node, or of the workload.  [default: one per core; its own]",
        ),
    ] = None
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every limit on the way, with its source.")
    ] = False
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="MATRIX|PROFILES",
            help="Simulate the mixed workload, such as mixed-30, or own jobs by their profiles (*.json).",
        ),
    ] = None
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=read_path, help="Launch profiles of `gridwright workload --profile`."
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="SCALE",
            help="With --workload: the size of its data.  [default: as profiled; paper without --profile]",
        ),
    ] = None
    sweep: Annotated[
        bool, typer.Option("--sweep", help="With --workload: how many jobs the grid would carry at once.")
    ] = False
    up_to: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, metavar="N", help="With --sweep: try no more streams.  [default: 4096]"
        ),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERVER|TARGET|NODE",
            help="What is left while this is dead, such as oss1; may be repeated. `each`: one of each alone.",
        ),
    ] = None
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Which input moves the answer most, and what binds next.")
    ] = False
    by: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=90, metavar="PERCENT", help="With --sensitivity: the change.  [default: 10]"
        ),
    ] = None
    day: Annotated[
        str | None,
        typer.Option(
            metavar="CURVE",
            help="Whether burst credits last through a day's load: business-day, nightly-batch, all-day, "
            "or a file *.csv with columns from,busy.",
        ),
    ] = None
    repository: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How long export, warm-up and restore of this repository take, and cost."
        ),
    ] = None
    objects: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --repository: how many files and directories it has."),
    ] = None
    changed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="With --repository: how many files are changed in a day."),
    ] = None
    calibrate: Annotated[
        str | None, typer.Option(metavar="RUN", help="Take the rates that this run of iotest measured.")
    ] = None
    free_space: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|now",
            help="How full OSTs are: saved from `lfs df PATH`, or asked for now.  [default: all alike]",
        ),
    ] = None
    papers: Annotated[
        bool, typer.Option("--papers", help="Hold the model against every published figure; reads no FILE.")
    ] = False
    markdown: Annotated[bool, typer.Option("--markdown", help="With --papers: print docs/papers.md.")] = False
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", parser=read_path, help="Write a page with charts, too.")
    ] = None
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


def run_predict(flags: PredictFlags) -> ExitStatus:
    """Predict what each library gives each core, what binds, and what it costs.

    Rates are those that last, with every node busy; bursts are listed apart. Exit status 1 when a
    requirement is missed.

    \b
    Examples:
      gridwright predict grid.yaml
      gridwright predict grid.yaml --explain --html grid.html
      gridwright predict grid.yaml --calibrate last
      gridwright predict grid.yaml --free-space now --explain
      gridwright predict grid.yaml --workload mixed-30 --scale small --html jobs.html
      gridwright predict grid.yaml --workload quick --sweep
      gridwright predict grid.yaml --without oss1 --json
      gridwright predict grid.yaml --sensitivity --by 20
      gridwright predict grid.yaml --day business-day
      gridwright predict grid.yaml --repository archive --objects 1000000
      gridwright predict --papers
    """  # noqa: D301 - \b keeps typer from filling the lines
    _check(flags)
    output = Output("predict", json=flags.json)
    if flags.papers:
        return _papers(flags, output)
    model = _model(flags)
    if (answered := _question(model, flags, output)) is not None:
        return answered
    if flags.workload is not None:
        return _workload(model, flags, output)
    from gridwright.model.document import prediction_document
    from gridwright.model.predict import predict as predict_rates

    prediction = predict_rates(model, flags.streams)
    if flags.html is not None:
        from gridwright.report.designs.page import prediction_page

        write_output(flags.html, prediction_page(prediction, model.spec.report.lines()))

    def text() -> str:
        from gridwright.report.terminal.prediction import prediction_text

        return prediction_text(prediction, explain=flags.explain)

    output.show(LazyResult(document=lambda: prediction_document(prediction), text=text))
    if flags.html is not None:
        output.note(f"page: {flags.html}")
    return ExitStatus.MISSED if prediction.met is False else ExitStatus.DONE


predict = verb(run_predict)


def _question(model: GridModel, flags: PredictFlags, output: Output) -> ExitStatus | None:
    """Answer what is asked beside rates; None where nothing is. Raises GridwrightError."""
    if flags.without is not None:
        from gridwright.cli.plan.predict_questions import predict_without

        return predict_without(model, flags.without, flags.streams, output)
    if flags.sensitivity:
        from gridwright.cli.plan.predict_questions import predict_sensitivity

        return predict_sensitivity(model, _BY if flags.by is None else flags.by, flags.streams, output)
    if flags.day is not None:
        from gridwright.cli.plan.predict_questions import predict_day

        return predict_day(model, flags.day, flags.streams, output)
    if flags.repository is not None:
        from gridwright.cli.plan.predict_questions import predict_repository

        return predict_repository(model, flags.repository, flags.objects, flags.changed, output)
    return None


def _check(flags: PredictFlags) -> None:
    """Raise GridwrightError with all flags that do not go together."""
    reader = Reader()
    if flags.papers:
        for name in ("file", "streams", "workload", "profile", "calibrate", "free_space", "html"):
            if getattr(flags, name) is not None:
                flag = "FILE" if name == "file" else f"--{name.replace('_', '-')}"
                reader.problem("--papers predicts the papers' own grids", flag, f"leave out {flag}")
    elif flags.markdown:
        reader.problem("--markdown prints the page of --papers", "--markdown", "add --papers")
    if flags.profile is not None and flags.workload is None:
        reader.problem("profiles are replayed by --workload", "--profile", "add --workload mixed-30")
    if flags.scale is not None and flags.workload is None:
        reader.problem("the scale is one of the workload's data", "--scale", "add --workload mixed-30")
    _check_sweep(flags, reader)
    _check_what_if(flags, reader)
    if flags.free_space == "":
        reader.problem("the path is empty", "--free-space", "name a file of lfs df, or write now")
    if flags.json and flags.markdown:
        reader.problem("one document at a time", "--markdown", "leave out --json")
    check_output(reader, "--html", flags.html)
    reader.finish(flags)


def _check_sweep(flags: PredictFlags, reader: Reader) -> None:
    if not flags.sweep:
        if flags.up_to is not None:
            reader.problem("this limits a sweep, and there is none", "--up-to", "add --sweep")
        return
    if flags.workload is None:
        reader.problem("it is the workload that is swept", "--sweep", "add --workload quick")
    if flags.streams is not None:
        what = "a sweep chooses the streams itself"
        reader.problem(what, "--streams", "leave it out; --up-to N has it try no more streams")


def _check_what_if(flags: PredictFlags, reader: Reader) -> None:
    """Each of the four questions has an answer of its own, without pages and limits."""
    asked = [name for name in ("without", "sensitivity", "day", "repository") if getattr(flags, name)]
    for name in asked[1:]:
        reader.problem("one question at a time", f"--{name}", f"leave out --{asked[0]}")
    if flags.objects is not None and flags.repository is None:
        reader.problem("these are objects of a repository", "--objects", "add --repository NAME")
    if flags.changed is not None and flags.repository is None:
        reader.problem("these are files of a repository", "--changed", "add --repository NAME")
    if flags.by is not None and not flags.sensitivity:
        reader.problem("it is the change of --sensitivity", "--by", "add --sensitivity")
    for name in asked[:1]:
        for other in ("papers", "workload", "html", "explain"):
            if getattr(flags, other):
                reader.problem(f"--{name} has no part in this", f"--{other}", f"leave out --{other}")


def _model(flags: PredictFlags) -> GridModel:
    from gridwright.cli.plan.predict_questions import NOW, space_in, space_now
    from gridwright.cli.spec_file import load_placed
    from gridwright.model.grid import grid_model

    if flags.free_space is None:
        model = grid_model(load_placed(flags.file))
    elif flags.free_space == NOW:
        spec, space = space_now(flags.file)
        model = grid_model(spec, space=space)
    else:
        spec = load_placed(flags.file)
        model = grid_model(spec, space=space_in(Path(flags.free_space), spec))
    if flags.calibrate is None:
        return model
    from gridwright.model.calibrate import calibrated
    from gridwright.runs.directory import load_run
    from gridwright.runs.place import find_run
    from gridwright.runs.records import figures_of

    loaded = load_run(find_run(flags.runs, flags.calibrate), with_samples=False)
    with figures_of(loaded.path):
        return calibrated(model, loaded)


def _papers(flags: PredictFlags, output: Output) -> ExitStatus:
    from gridwright.model.papers import check_papers, papers_document

    check = check_papers(matrices={name: workload_matrix(name) for name in ("mixed-30", "mixed-20")})
    if flags.markdown:
        from gridwright.report.papers import papers_page

        output.write(papers_page(check))
        return ExitStatus.DONE

    def text() -> str:
        from gridwright.report.terminal.prediction import papers_text

        return papers_text(check)

    output.show(LazyResult(document=lambda: papers_document(check), text=text))
    return ExitStatus.DONE


def _workload(model: GridModel, flags: PredictFlags, output: Output) -> ExitStatus:
    """Simulate the workload and print what it comes to. Raises GridwrightError."""
    from gridwright.model.costs import useful_cost
    from gridwright.model.document import workload_document
    from gridwright.model.workload import Replay, default_profiles, simulate_workload
    from gridwright.runs.profiles import load_profiles
    from gridwright.workload.messages import SCALES

    if flags.scale is not None and flags.scale not in SCALES:
        raise input_error(
            f"no scale is named {flags.scale!r}", where="--scale", remedy=f"use {', '.join(SCALES)}"
        )
    own = flags.profile or _profiles_as_workload(flags.workload)
    profiles = load_profiles(own) if own else default_profiles()
    # One's own profiles are replayed as they were recorded; those that come along, at the papers' size.
    scale = flags.scale or (None if own else PAPER)
    same_size = scale is None or scale == profiles.scale
    replay = Replay(scale=scale, page_cache="profile" if same_size else "none")
    where = str(own) if own else "the profiles that come with gridwright"
    matrix = _matrix(flags, profiles, own)
    if flags.sweep:
        from gridwright.cli.plan.predict_questions import Simulated, predict_sweep

        simulated = Simulated(model, matrix, profiles, replay, where)
        return predict_sweep(simulated, output, up_to=flags.up_to, html=flags.html)
    prediction = simulate_workload(model, matrix, profiles, replay, where=where)
    cost = useful_cost(model, prediction)
    if flags.html is not None:
        from gridwright.report.designs.page import workload_prediction_page

        heading = model.spec.report.lines()
        page = workload_prediction_page(model.name, matrix.name, prediction, cost, heading)
        write_output(flags.html, page)

    def text() -> str:
        from gridwright.report.terminal.prediction import workload_prediction_text

        return workload_prediction_text(model.name, matrix.name, prediction, cost)

    output.show(LazyResult(document=lambda: workload_document(model, matrix, prediction), text=text))
    if flags.html is not None:
        output.note(f"page: {flags.html}")
    return ExitStatus.DONE


def _matrix(flags: PredictFlags, profiles: Profiles, own: Path | None) -> WorkloadMatrix:
    """What is simulated: a site's own jobs, or a matrix. Raises GridwrightError."""
    if own and own != flags.profile:
        return _imported_streams(profiles, own, flags.streams)
    return workload_matrix(flags.workload or "", flags.streams)


def _profiles_as_workload(name: str | None) -> Path | None:
    """The file of profiles that `--workload` names in place of a matrix."""
    return Path(name) if name is not None and name.endswith(".json") else None


def _imported_streams(profiles: Profiles, path: Path, streams: int | None) -> WorkloadMatrix:
    """The jobs of a site's own, as they followed each other. Raises GridwrightError."""
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.runs.profiles import streams_of

    return WorkloadMatrix(path.stem, streams_of(profiles, streams, where=str(path)))


def workload_matrix(name: str, streams: int | None = None) -> WorkloadMatrix:
    """A matrix of the workload as the model takes it. Raises GridwrightError for one that does not exist."""
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.workload.matrix import load_matrix

    matrix = load_matrix(name, "--workload")
    if streams is not None:
        matrix = matrix.with_streams(streams)
    labels = tuple(tuple(entry.label for entry in stream) for stream in matrix.streams)
    return WorkloadMatrix(matrix.name, labels, every_node=matrix.name in EVERY_NODE)
