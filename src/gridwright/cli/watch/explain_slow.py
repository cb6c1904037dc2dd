"""`gridwright explain-slow`: why libraries or a job are slow, in words, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
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
from gridwright.cli.flags import Reads, read_flags, verb
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import has_default_spec
from gridwright.cli.watch.named_servers import Servers, named_servers
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.cli.watch.slow_question import SlowQuestion
    from gridwright.monitor.causes.explaining import SlowExplanation

_SHORTEST_S, _LONGEST_S = 1.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSlowFlags:
    """The flags of `gridwright explain-slow`, as they were typed."""

    file: SpecFile = None
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Only what holds this job up, on its nodes.")
    ] = None
    library: Annotated[str | None, typer.Option(metavar="NAME", help="Only this library's file system.")] = (
        None
    )
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="At that time, if nodes keep history: 14:05, or 20m for so long ago."
        ),
        Reads(Reader.moment),
    ] = None
    interval: Annotated[
        str,
        typer.Option(metavar="TIME", help="The time over which it is measured."),
        Reads(Reader.seconds, instead=10.0),
    ] = "10s"
    play: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=read_path, help="Ask a recording of gridwright top."),
    ] = None
    servers: Servers = None
    runs: RunsDirectory = DEFAULT_RUNS
    json: Json = False


def run_explain_slow(flags: ExplainSlowFlags) -> ExitStatus:
    """Say why a grid, a library or a job is slow: what binds, who else uses it, since when, what changed.

    Measures for --interval what each busy core gets against what the spec requires, and how full every
    resource on the way is. Without FILE and without ./grid.yaml, this machine alone. Exit status 1 where
    something is slow, 3 where a node does not answer or it cannot be told.

    \b
    Examples:
      gridwright explain-slow
      gridwright explain-slow grid.yaml --library data --interval 30s
      gridwright explain-slow grid.yaml --job 17
      gridwright explain-slow grid.yaml --at 14:05
      gridwright explain-slow --play tuesday.top --at 14:05
    """  # noqa: D301 - \b is a control character for click
    explanation = _answer(_checked(flags))
    Output("explain-slow", json=flags.json).show(
        LazyResult(document=explanation.document, text=lambda: _text(explanation))
    )
    return _status(explanation)


explain_slow = verb(run_explain_slow)


def _checked(flags: ExplainSlowFlags) -> SlowQuestion:
    """The question. Raises GridwrightError with all that is wrong with the flags."""
    from gridwright.cli.watch.slow_question import SlowQuestion

    reader = Reader()
    values = read_flags(flags, reader)
    seconds: float = values["interval"]
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(
            f"{flags.interval} is too short or too long", "--interval", "write a time from 1s to 1h"
        )
    if flags.play is not None and flags.file is not None:
        reader.problem("a recording says itself what was watched", "--play", "leave FILE out")
    if flags.job is not None and flags.library is not None:
        reader.problem("a job is looked at with all that it uses", "--library", "leave out one of them")
    if flags.at is not None and flags.servers is not None:
        reader.problem("servers are asked now, and keep no history", "--servers", "leave out --at")
    no_grid = flags.play is not None or (flags.file is None and not has_default_spec())
    hosts = named_servers(reader, flags.servers, no_grid=no_grid)
    reader.finish(values)
    return SlowQuestion(
        flags.file, flags.job, flags.library, values["at"], seconds, flags.play, flags.runs, tuple(hosts)
    )


def _answer(question: SlowQuestion) -> SlowExplanation:
    from gridwright.cli.watch.slow_question import explained_live, explained_recording, explained_then

    if question.play is not None:
        return explained_recording(question)
    return explained_live(question) if question.at_s is None else explained_then(question)


def _status(explanation: SlowExplanation) -> ExitStatus:
    if explanation.slow:
        return ExitStatus.MISSED
    return ExitStatus.DONE if explanation.is_complete else ExitStatus.ENVIRONMENT


def _text(explanation: SlowExplanation) -> str:
    from gridwright.monitor.causes.words import explanation_text

    return explanation_text(explanation)
