"""`gridwright console`: serves a page that shows a grid, or this machine where there is none."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, DEFAULT_SPEC, Reader, RunsDirectory, SpecFile, verb
from gridwright.cli.spec_file import grid_here, has_default_spec
from gridwright.cli.watch.listening_flags import ListeningFlags, listening_at, listening_words, program
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.services.ports import CONSOLE_PORT

if TYPE_CHECKING:
    import threading

    from gridwright.grid.grid import Grid
    from gridwright.monitor.console.watching import (
        HourlyCost,
        JobFacts,
        MarkState,
        OpenFinding,
        RepositoryFacts,
        TimeMark,
        ViewerRule,
        Watching,
    )
    from gridwright.monitor.history.questions import Histories
    from gridwright.monitor.libraries import WatchedLibrary
    from gridwright.services.listening import Listening
    from gridwright.spec.model import GridSpec


_LOOK_S = 0.2


@dataclass(frozen=True)
class ConsoleFlags(ListeningFlags):
    """The flags, each with its help."""

    file: SpecFile = None
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 for a free one.")] = (
        CONSOLE_PORT
    )
    live: Annotated[
        bool, typer.Option("--live", help="Sample nodes from here, whatever history they keep.")
    ] = False
    runs: RunsDirectory = DEFAULT_RUNS
    user_header: Annotated[
        str | None,
        typer.Option("--user-header", metavar="NAME", help="The header in which the proxy says who asks."),
    ] = None
    administrator: Annotated[
        list[str] | None,
        typer.Option("--administrator", metavar="USER", help="Who sees the names of all jobs; repeat it."),
    ] = None
    unit: Annotated[
        bool, typer.Option("--unit", help="Print the unit of systemd that serves it so, and end.")
    ] = False


@verb
def console(flags: ConsoleFlags) -> int:
    """Serve a page for browsers: a grid as it is and as it was, and what binds.

    It prints its address with a token, and answers on this machine alone by default. Another address needs
    --certificate, --key and a token; or the site's --proxy, which does TLS, and a token that it has in
    --proxy-header, or that each browser brings once. Nodes that keep no history are sampled from here while
    it runs. Without FILE and without ./grid.yaml it shows this machine. It ends with Ctrl-C.

    \b
    Examples:
      gridwright console
      gridwright console grid.yaml --port 8080
      gridwright console --listen 10.0.0.7 --certificate node.pem --key node.key --token-file token
      gridwright console grid.yaml --token-file token --unit
    """  # noqa: D301 - \b is a control character for click
    from gridwright.cli.interrupt import stop_on_signals

    reader = Reader()
    listening = reader.attempt(lambda: listening_at(flags, flags.port, has_sessions=True))
    if flags.user_header is not None and flags.proxy_header is None:
        reader.problem(
            "only a proxy that is known by its token can say who asks",
            "--user-header",
            "add --proxy, --proxy-header and --token-file",
        )
    listening = reader.finish(listening)
    if flags.unit:
        return int(_show_unit(flags))
    grid = grid_here(flags.file)
    with stop_on_signals() as stop, opened(grid, flags.runs, live=flags.live) as watching:
        _serve(watching, listening, _rule(flags), stop)
    return ExitStatus.DONE


def _show_unit(flags: ConsoleFlags) -> ExitStatus:
    """Print the unit, with every path from / on: where a service starts is not where it was printed."""
    from gridwright.cli.output import Output
    from gridwright.setup.services import CONSOLE_UNIT, console_unit

    file = flags.file or (DEFAULT_SPEC if has_default_spec() else None)
    command = [program(), "console", *([] if file is None else [str(file.absolute())])]
    command += [*listening_words(flags, flags.port), "--runs", str(flags.runs.absolute())]
    command += [] if flags.user_header is None else ["--user-header", flags.user_header]
    command += [*(["--live"] if flags.live else [])]
    for each in flags.administrator or []:
        command += ["--administrator", each]
    text = console_unit(command, getpass.getuser(), Path.cwd())
    Output("console").write(f"# /etc/systemd/system/{CONSOLE_UNIT}\n{text}")
    return ExitStatus.DONE


def _rule(flags: ConsoleFlags) -> ViewerRule:
    from gridwright.monitor.console.watching import ViewerRule

    return ViewerRule(
        started_by=getpass.getuser(),
        started_by_root=os.geteuid() == 0,
        user_header=flags.user_header,
        administrators=frozenset(flags.administrator or ()),
    )


def _serve(watching: Watching, listening: Listening, rule: ViewerRule, stop: threading.Event) -> None:
    """Answer until a signal comes. Raises GridwrightError where it cannot listen there."""
    from gridwright.errors import environment_error
    from gridwright.monitor.console.answers import Answers
    from gridwright.monitor.console.server import (
        BOUNDS,
        ConsoleAccess,
        ConsoleServer,
        console_application,
        session_token,
    )
    from gridwright.services.listening import Gate

    own = listening.token is None
    # Other users of this machine reach loopback as well.
    guarded = replace(listening, token=session_token()) if own else listening
    with guarded.bind(BOUNDS) as listener:
        access = ConsoleAccess(Gate(guarded), listener.getsockname()[1])
        server = ConsoleServer(console_application(Answers(watching), rule, access), access, listener)
        server.start()
        _say(guarded, access.port, own=own)
        while not stop.wait(_LOOK_S):
            if not server.is_alive:
                raise environment_error("the web server ended by itself", where=guarded.url(access.port))
        server.close()


def _say(listening: Listening, port: int, *, own: bool) -> None:
    """The address, on stdout for who opens it by a program."""
    url = listening.url(port)
    sys.stdout.write(f"{url}/?token={listening.token}\n" if own else f"{url}/\n")
    sys.stdout.flush()
    if sys.stderr.isatty():
        words = "open it in a browser" if own else "the token is that of --token-file"
        sys.stderr.write(f"{words}; Ctrl-C ends it ({time.strftime('%H:%M:%S')})\n")


_JOBS_S, _FINDINGS_S, _REMOTE_S = 10.0, 10.0, 20.0
"""How often a scheduler is asked for its jobs, a watch for what it found, and nodes for their history."""


@contextmanager
def opened(grid: Grid | None, runs: Path, *, live: bool) -> Iterator[Watching]:
    """What is to be shown. Samplers that were started for it end with it.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    from gridwright.monitor.console.watching import MOST_MARKS, HourlyCost, Remembered, RunMarks, Watching
    from gridwright.monitor.gathering import mounted_here, watched_libraries
    from gridwright.monitor.history.grid_histories import GridHistories

    run_marks = RunMarks(runs)

    def marks(start_s: float, end_s: float) -> Sequence[TimeMark]:
        found = [
            *run_marks.within(start_s, end_s),
            *_findings(None if grid is None else grid.spec, start_s, end_s),
        ]
        return sorted(found, key=lambda each: each.start_s)[-MOST_MARKS:]

    nothing_open: Sequence[OpenFinding] = ()
    spec = None if grid is None else grid.spec
    findings = Remembered(lambda: _open_findings(spec), nothing_open, _FINDINGS_S)
    with _histories(grid, live=live) as histories:
        absences = partial(getattr, histories, "absent", {})
        if grid is None:
            yield Watching(
                name=socket.gethostname(),
                histories=histories,
                marks=marks,
                absences=absences,
                findings=findings.get,
                explain=explaining(histories, mounted_here(), runs),
                cost=HourlyCost(None, "there is no grid spec"),
                is_machine=True,
            )
            return
        libraries = watched_libraries(grid)
        no_jobs: Sequence[JobFacts] = ()
        jobs = Remembered(lambda: _jobs(grid), no_jobs, _JOBS_S)
        yield Watching(
            name=grid.spec.name,
            histories=histories,
            refresh_s=_REMOTE_S if isinstance(histories, GridHistories) else 2.0,
            libraries=libraries,
            marks=marks,
            absences=absences,
            findings=findings.get,
            explain=explaining(histories, libraries, runs, grid.spec),
            jobs=jobs.get,
            cost=_cost(grid.spec),
            repositories=_repositories(grid.spec),
        )


@contextmanager
def _histories(grid: Grid | None, *, live: bool) -> Iterator[Histories]:
    """What nodes have kept; where none of them keeps anything, they are sampled from here."""
    from gridwright.monitor.gathering import commands_of, directories_of
    from gridwright.monitor.history.choosing import LiveHistories, watched_histories

    if not live:
        with watched_histories(grid) as histories:
            yield histories
        return
    with LiveHistories(commands_of(grid), () if grid is None else directories_of(grid)) as sampled:
        yield sampled


def _jobs(grid: Grid) -> Sequence[JobFacts]:
    """Jobs that run. Raises GridwrightError where the scheduler does not answer."""
    from gridwright.monitor.console.watching import JobFacts

    if not grid.has_queue:
        return []
    return [
        JobFacts(
            job=job.id,
            user=job.user,
            name=job.name,
            state=str(job.state),
            node=job.node,
            started=job.started,
        )
        for job in grid.scheduler.jobs()
        if job.started is not None and job.ended is None
    ]


def _findings(spec: GridSpec | None, start_s: float, end_s: float) -> Iterator[TimeMark]:
    """What a watch of the grid found; nothing where none runs."""
    from gridwright.monitor.console.watching import TimeMark
    from gridwright.watch.state import change_marks, watch_directory

    states: dict[str, MarkState] = {"opened": "bad", "closed": "good", "flapping": "doubt"}
    for mark in change_marks(watch_directory(spec), start_s, end_s):
        yield TimeMark(
            kind="finding",
            name=mark.link,
            text=f"{mark.what} ({mark.where})" if mark.where else mark.what,
            state=states.get(mark.kind, "other"),
            start_s=mark.time,
            end_s=mark.time,
        )


def explaining(
    histories: Histories, libraries: Sequence[WatchedLibrary], runs: Path, spec: GridSpec | None = None
) -> Callable[[float, float], str]:
    """What says in words why something is slow."""

    def explain(at_s: float, seconds: float) -> str:
        from rich.text import Text

        from gridwright.cli.watch.explain_slow import SlowQuestion, explained_history
        from gridwright.monitor.causes.words import explanation_text
        from gridwright.watch.state import watch_directory

        watch = watch_directory(spec)
        question = SlowQuestion(None, None, None, at_s, max(10.0, seconds), None, runs, watch=watch)
        # The colours of a terminal that the console was started in are none of the page's.
        told = explanation_text(explained_history(question, histories, at_s, libraries))
        return "\n".join(line.rstrip() for line in Text.from_ansi(told).plain.splitlines())

    return explain


def _open_findings(spec: GridSpec | None) -> Sequence[OpenFinding]:
    """What a watch of the grid knows to be wrong; nothing where none runs. Raises GridwrightError."""
    from gridwright.monitor.console.watching import OpenFinding
    from gridwright.watch.notifications import folded, place
    from gridwright.watch.state import read_state, watch_directory

    state = read_state(watch_directory(spec))
    if state is None:
        return ()
    rows = folded(
        (("flapping" if each.is_flapping else "open", each, "") for each in state.open), state.explained
    )
    return [
        OpenFinding(
            level=row.level,
            name=row.name,
            where=place(row).rstrip(": "),
            found=row.found,
            since_s=row.since_s,
            is_flapping=row.change == "flapping",
        )
        for row in rows
    ]


def _cost(spec: GridSpec) -> HourlyCost:
    """The bill by listed prices."""
    from gridwright.catalog import load_catalog
    from gridwright.model.grid import grid_model
    from gridwright.monitor.console.watching import HourlyCost
    from gridwright.plan.design import price_dates

    if not spec.is_cloud:
        return HourlyCost(None, "the grid is not in a cloud")
    try:
        hourly = grid_model(spec).usd_per_hour
        names = [group.instance for group in spec.nodes.values() if group.instance]
        dates = price_dates(load_catalog(spec.file.parent if spec.file else None), names, spec.region or "")
    except GridwrightError as error:
        return HourlyCost(None, str(error).splitlines()[0])
    if hourly is None:
        return HourlyCost(None, "a price is missing")
    return HourlyCost(hourly, f"listed prices of {dates or 'an unknown date'} in {spec.region}")


def _repositories(spec: GridSpec) -> Sequence[RepositoryFacts]:
    """All repositories of the spec."""
    from gridwright.monitor.console.watching import RepositoryFacts
    from gridwright.spec.linked import linked_directories

    facts = [
        RepositoryFacts(
            name,
            str(repository.library),
            repository.bucket,
            "the file system's own link" if spec.is_linked(name) else "gridwright repo",
        )
        for name, repository in spec.repositories.items()
    ]
    return [
        *facts,
        *(
            RepositoryFacts(
                name,
                f"on {linked_directory.filesystem}",
                linked_directory.link.bucket,
                "the file system's own link",
            )
            for name, linked_directory in linked_directories(spec).items()
            if name not in spec.repositories
        ),
    ]
