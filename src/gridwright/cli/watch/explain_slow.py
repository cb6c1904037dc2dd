"""`gridwright explain-slow`: why libraries or a job are slow, in words, with the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import (
    DEFAULT_RUNS,
    Json,
    Reader,
    RunsDirectory,
    SpecFile,
    read_path,
)
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.cli.watch.slow_question import SlowQuestion
    from gridwright.monitor.causes.explaining import Explanation

_SHORTEST_S, _LONGEST_S = 1.0, 3600.0


def explain_slow(
    file: SpecFile = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="Only what holds this job up, on its nodes.")
    ] = None,
    library: Annotated[
        str | None, typer.Option("--library", metavar="NAME", help="Only this library's file system.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="At that time: 14:05, or 20m for so long ago."),
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="The time over which it is measured.")
    ] = "10s",
    play: Annotated[
        Path | None,
        typer.Option("--play", metavar="PATH", parser=read_path, help="Ask a recording of gridwright top."),
    ] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> int:
    """Say why a grid, a library or a job is slow: what binds, who else uses it, since when, what changed.

    Measures for --interval what each busy core gets against what the spec requires, and how full every
    resource on the way is. Without FILE and without ./grid.yaml, this machine alone. Exit status 1 where
    something is slow, 3 where a node does not answer or it cannot be told.

    \b
    Examples:
      gridwright explain-slow
      gridwright explain-slow grid.yaml --library data --interval 30s
      gridwright explain-slow grid.yaml --job 17
      gridwright explain-slow --play tuesday.top --at 14:05
    """  # noqa: D301 - \b is a control character for click
    question = _checked(file, job, library, at, interval, play, runs)
    explanation = _answer(question)
    Output("explain-slow", json=json).show(
        LazyResult(document=explanation.document, text=lambda: _text(explanation))
    )
    return int(_status(explanation))


def _checked(
    file: Path | None,
    job: str | None,
    library: str | None,
    at: str | None,
    interval: str,
    play: Path | None,
    runs: Path,
) -> SlowQuestion:
    """The question. Raises GridwrightError with all that is wrong with the flags."""
    from gridwright.cli.watch.slow_question import SlowQuestion

    reader = Reader()
    seconds = reader.seconds("--interval", interval)
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(f"{interval} is too short or too long", "--interval", "write a time from 1s to 1h")
    at_s = reader.moment("--at", at)
    if play is not None and file is not None:
        reader.problem("a recording says itself what was watched", "--play", "leave FILE out")
    if job is not None and library is not None:
        reader.problem("a job is looked at with all that its nodes use", "--library", "leave out one of them")
    if at is not None and play is None:
        reader.problem(
            "no history of the nodes is kept that could be asked",
            "--at",
            "record what is to be asked later: gridwright top --record FILE; then name it with --play",
        )
    seconds = reader.finish(seconds)
    return SlowQuestion(file, job, library, at_s, seconds, play, runs)


def _answer(question: SlowQuestion) -> Explanation:
    from gridwright.cli.watch.slow_question import explained_live, explained_recording

    return explained_recording(question) if question.play is not None else explained_live(question)


def _status(explanation: Explanation) -> ExitStatus:
    if explanation.slow:
        return ExitStatus.MISSED
    return ExitStatus.DONE if explanation.told else ExitStatus.ENVIRONMENT


def _text(explanation: Explanation) -> str:
    from gridwright.monitor.causes.words import explanation_text

    return explanation_text(explanation)
