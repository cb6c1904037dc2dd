"""`gridwright console`: a grid as it is and as it was, as a page for browsers."""

from __future__ import annotations

import getpass
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, DEFAULT_SPEC, Reader, RunsDirectory, SpecFile
from gridwright.cli.flags import verb
from gridwright.cli.spec_file import has_default_spec
from gridwright.cli.watch.listening_flags import ListeningFlags, listening_at, listening_words, program
from gridwright.errors import ExitStatus
from gridwright.services.console_address import PORT

if TYPE_CHECKING:
    import threading

    from gridwright.grid.grid import Grid
    from gridwright.monitor.console.viewers import ViewerRule
    from gridwright.monitor.console.watching import Watching
    from gridwright.services.listening import Listening

_LOOK_S = 0.2


@dataclass(frozen=True)
class ConsoleFlags(ListeningFlags):
    """The flags, each with its help."""

    file: SpecFile = None
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 for a free one.")] = PORT
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
    from gridwright.cli.watch.console_grid import opened

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
    grid = _grid(flags.file)
    with stop_on_signals() as stop, opened(grid, flags.runs, live=flags.live) as watching:
        _serve(watching, listening, _rule(flags), stop)
    return ExitStatus.DONE


def _grid(file: Path | None) -> Grid | None:
    if file is None and not has_default_spec():
        return None
    from gridwright.cli.grid_file import open_grid

    return open_grid(file)


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
    from gridwright.monitor.console.viewers import ViewerRule

    return ViewerRule(
        started_by=getpass.getuser(),
        started_by_root=os.geteuid() == 0,
        user_header=flags.user_header,
        administrators=frozenset(flags.administrator or ()),
    )


def _serve(watching: Watching, listening: Listening, rule: ViewerRule, stop: threading.Event) -> None:
    """Answer until a signal comes. Raises GridwrightError where it cannot listen there."""
    from gridwright.errors import environment_error
    from gridwright.monitor.console.access import ConsoleAccess, session_token
    from gridwright.monitor.console.answers import Answers
    from gridwright.monitor.console.bounded_protocol import BOUNDS
    from gridwright.monitor.console.server import ConsoleServer, console_application
    from gridwright.services.admission import Gate

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
