"""What `gridwright predict` does with its flags."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.output_file import check_output, write_output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.model.grid import GridModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictFlags:
    """The flags as they were typed."""

    file: Path | None
    streams: int | None
    explain: bool
    workload: str | None
    profile: Path | None
    scale: str | None
    calibrate: str | None
    papers: bool
    markdown: bool
    html: Path | None
    runs: Path
    json: bool


def run_predict(flags: PredictFlags) -> ExitStatus:
    """Predict and print; returns the exit status. Raises GridwrightError."""
    _check(flags)
    if flags.papers:
        return _papers(flags)
    model = _model(flags)
    if flags.workload is not None:
        from gridwright.cli.plan.predict_workload import predict_workload

        return predict_workload(model, flags)
    from gridwright.model.document import prediction_document
    from gridwright.model.predict import predict

    prediction = predict(model, flags.streams)
    if flags.html is not None:
        from gridwright.report.designs.page import prediction_page

        write_output(flags.html, prediction_page(prediction))
    if flags.json:
        document = {"schema": 1, "command": "predict", **prediction_document(prediction)}
        typer.echo(json.dumps(document, indent=2))
    else:
        from gridwright.report.terminal.prediction import print_prediction

        print_prediction(prediction, explain=flags.explain)
    if flags.html is not None:
        typer.echo(f"page: {flags.html}", err=flags.json)
    return ExitStatus.MISSED if prediction.met is False else ExitStatus.DONE


def _check(flags: PredictFlags) -> None:
    """Raise GridwrightError with all flags that do not go together."""
    reader = Reader()
    if flags.papers:
        for name in ("file", "streams", "workload", "profile", "calibrate", "html"):
            if getattr(flags, name) is not None:
                flag = "FILE" if name == "file" else f"--{name}"
                reader.problem("--papers predicts the papers' own grids", flag, f"leave out {flag}")
    elif flags.markdown:
        reader.problem("--markdown prints the page of --papers", "--markdown", "add --papers")
    if flags.profile is not None and flags.workload is None:
        reader.problem("profiles are replayed by --workload", "--profile", "add --workload mixed-30")
    if flags.scale is not None and flags.workload is None:
        reader.problem("the scale is one of the workload's data", "--scale", "add --workload mixed-30")
    if flags.workload is not None and flags.html is not None:
        reader.problem("the page shows rates, not the workload", "--html", "leave out --workload")
    if flags.json and flags.markdown:
        reader.problem("one document at a time", "--markdown", "leave out --json")
    check_output(reader, "--html", flags.html)
    reader.finish(flags)


def _model(flags: PredictFlags) -> GridModel:
    from gridwright.model.grid import grid_model

    model = grid_model(load_placed(flags.file))
    if flags.calibrate is None:
        return model
    from gridwright.model.calibrate import calibrated
    from gridwright.runs.directory import load_run
    from gridwright.runs.find import find_run

    return calibrated(model, load_run(find_run(flags.runs, flags.calibrate), with_samples=False))


def _papers(flags: PredictFlags) -> ExitStatus:
    from gridwright.cli.plan.predict_workload import workload_matrix
    from gridwright.model.papers.checks import check_papers, papers_document

    check = check_papers(matrices={name: workload_matrix(name) for name in ("mixed-30", "mixed-20")})
    if flags.markdown:
        from gridwright.report.papers.page import papers_page

        typer.echo(papers_page(check), nl=False)
    elif flags.json:
        document = {"schema": 1, "command": "predict", **papers_document(check)}
        typer.echo(json.dumps(document, indent=2))
    else:
        from gridwright.report.terminal.papers import print_papers

        print_papers(check)
    return ExitStatus.DONE
