"""`gridwright watch`: findings over time, and who is told of them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile, read_path, verb
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import has_default_spec
from gridwright.errors import ExitStatus, GridwrightError, environment_error, input_error

if TYPE_CHECKING:
    from gridwright.spec import GridSpec
    from gridwright.spec.monitoring import WatchSection
    from gridwright.watch.sending import AnyReceiver
    from gridwright.watch.watch import Watch, WatchSettings

_ROUND = ("-P", "-m", "gridwright.cli.watch.watch_round")


@dataclass(frozen=True, slots=True)
class WatchFlags:
    """The flags of `gridwright watch`."""

    file: SpecFile = None
    once: Annotated[bool, typer.Option("--once", help="One round, send what changed, and end: for cron.")] = (
        False
    )
    everything: Annotated[
        bool, typer.Option("--all", help="With --once: all checks, whenever they were last.")
    ] = False
    status: Annotated[bool, typer.Option("--status", help="Show what is open since when, and end.")] = False
    command: Annotated[
        str | None,
        typer.Option(
            "--command", metavar="PROGRAM", help="A program that gets each notice as JSON on its input."
        ),
    ] = None
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help="A URL that each notice is posted to, signed."),
    ] = None
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file", metavar="PATH", parser=read_path, help="The file with the webhook's secret."
        ),
    ] = None
    mail: Annotated[
        list[str] | None,
        typer.Option("--mail", metavar="ADDRESS", help="Who gets each notice by mail; may be repeated."),
    ] = None
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", parser=read_path, help="Where it keeps what it knows."),
    ] = None
    on_head: Annotated[bool, typer.Option("--on-head", help="This machine is the head node of the grid.")] = (
        False
    )
    json: Json = False


def _run(flags: WatchFlags) -> int:
    """Watch a grid: look each minute, keep what is wrong since when, and tell who wants to know.

    Does the cheap checks of the doctor each minute and all of them each hour. Without FILE and without
    ./grid.yaml it watches this machine. It stays until it is ended; findings and notices outlive it. With
    --once, exit status 1 where a finding of level error is open, 3 where the round told nothing.

    \b
    Examples:
      gridwright watch grid.yaml --mail ops@example.org
      gridwright watch --status
      gridwright watch grid.yaml --once --command /usr/local/bin/page
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.spec_file import load_placed
    from gridwright.watch.state import watch_directory

    _check(flags)
    spec = load_placed(flags.file) if flags.file is not None or has_default_spec() else None
    directory = flags.state.absolute() if flags.state is not None else watch_directory(spec)
    if flags.status:
        return _show(directory, json=flags.json)
    return _watch(flags, spec, directory)


_run.__name__ = "watch"
watch = verb(_run)


def _check(flags: WatchFlags) -> None:
    """Raise GridwrightError for flags that do not go together."""
    from gridwright.cli.arguments import Reader

    reader = Reader()
    if flags.status and flags.once:
        reader.problem("a look at what is known is no round", "--status", "leave out --once")
    if flags.everything and not flags.once:
        reader.problem("a watch does all checks each hour", "--all", "add --once")
    if flags.json and not (flags.once or flags.status):
        reader.problem("one document is one look", "--json", "add --once or --status")
    if flags.secret_file is not None and flags.webhook is None:
        reader.problem("the secret is for a webhook", "--secret-file", "add --webhook URL")
    reader.finish(True)


def _show(directory: Path, *, json: bool) -> int:
    from gridwright.watch.state import read_state, status_document, status_text

    state = read_state(directory)
    if state is None:
        raise environment_error(
            "nobody has watched this grid yet",
            where=str(directory),
            remedy="begin with gridwright watch; name another directory with --state",
        )
    now_s = time.time()
    Output("watch", json=json).show(
        LazyResult(
            document=lambda: status_document(directory, state, now_s),
            text=lambda: status_text(directory, state, now_s),
        )
    )
    return int(ExitStatus.DONE)


def _watch(flags: WatchFlags, spec: GridSpec | None, directory: Path) -> int:
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.watch.rounds import RoundRunner
    from gridwright.watch.sending import receiver_problems
    from gridwright.watch.state import held
    from gridwright.watch.watch import Watch

    settings = _settings(flags, spec)
    problems = receiver_problems(settings.receivers)
    if problems and not flags.on_head:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    for problem in problems:
        # A service watches all the same; --status says what is not sent, and why.
        _say(f"{problem}")
    with stop_on_signals() as stop, held(directory):
        watching = Watch(settings, directory, RoundRunner((sys.executable, *_ROUND)), _say)
        if not flags.once:
            _say(f"watching {settings.grid}; what is known is in {directory}")
            watching.run(stop)
            return int(ExitStatus.INTERRUPTED)
        if not watching.once(stop, everything=flags.everything):
            return int(ExitStatus.INTERRUPTED)
    if flags.json:
        _show(directory, json=True)
    return int(_status(watching))


def _status(watching: Watch) -> ExitStatus:
    last = watching.state.last_round
    if last is None or last.problem:
        return ExitStatus.ENVIRONMENT
    failed = any(each.level == "error" for each in watching.state.open)
    return ExitStatus.MISSED if failed else ExitStatus.DONE


def _say(line: str) -> None:
    from gridwright.cli.verbosity import say

    say(line)


def _settings(flags: WatchFlags, spec: GridSpec | None) -> WatchSettings:
    from gridwright.spec.monitoring import WatchSection
    from gridwright.watch.damping import Damping
    from gridwright.watch.state import HERE
    from gridwright.watch.watch import WatchSettings

    section = (spec.monitoring.watch if spec is not None else None) or WatchSection()
    return WatchSettings(
        spec.name if spec is not None else HERE,
        spec.file if spec is not None else None,
        section.every,
        section.all_every,
        Damping(section.open_after, section.close_after, section.flapping_after),
        section.level,
        flags.on_head,
        _receivers(flags, section),
        frozenset(spec.silence) if spec is not None else (),
    )


def _receivers(flags: WatchFlags, section: WatchSection) -> dict[str, AnyReceiver]:
    """Those of the spec, with what flags say instead, which is read as the spec's fields are."""
    import shlex

    from pydantic import ValidationError

    from gridwright.spec.monitoring import WatchSection
    from gridwright.watch.sending import receivers_of

    values = section.model_dump(mode="json", include={"command", "webhook", "mail"}, exclude_none=True)
    try:
        if flags.command is not None:
            values["command"] = shlex.split(flags.command)
    except ValueError as error:
        raise input_error(
            f"{flags.command!r}: {error}", where="--command", remedy="close the quote"
        ) from error
    if flags.webhook is not None:
        secret = {"secret_file": str(flags.secret_file.absolute())} if flags.secret_file is not None else {}
        values["webhook"] = {**values.get("webhook", {}), "url": flags.webhook, **secret}
    if flags.mail:
        values["mail"] = {**values.get("mail", {}), "to": flags.mail}
    try:
        return receivers_of(WatchSection.model_validate(values))
    except ValidationError as error:
        first = error.errors()[0]
        flag = f"--{first['loc'][0]}"
        raise input_error(str(first["msg"]).removeprefix("Value error, "), where=flag) from error
