"""`gridwright top`: what nodes, libraries and jobs do now, and what binds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, Reader, Servers, SpecFile, named_servers, read_path
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import grid_here, has_default_spec
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.monitor.frame import Frame
    from gridwright.monitor.live import Pictures

_SHORTEST_S, _LONGEST_S = 0.1, 3600.0


def top(
    file: SpecFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and end.")] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="The time over which rates are taken.")
    ] = "1s",
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="PATH", parser=read_path, help="Record what is shown."),
    ] = None,
    play: Annotated[
        Path | None,
        typer.Option("--play", metavar="PATH", parser=read_path, help="Play what was recorded."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="The picture of then, if nodes keep history: 14:05, or 20m for so long ago.",
        ),
    ] = None,
    servers: Servers = None,
    json: Json = False,
) -> int:
    """Show what nodes, libraries and jobs of a grid do now, and what binds.

    Of each library: what its file system moves for each busy core against what the spec requires. Without
    FILE and without ./grid.yaml, this machine alone. With --once, exit status 3 where a node or a
    target of a library's file system does not answer; without a spec, where a mount does not.

    \b
    Examples:
      gridwright top
      gridwright top lab.yaml --once --interval 5s --json
      gridwright top grid.yaml --record tuesday.top
      gridwright top grid.yaml --servers 'oss[1-4],mds1'
      gridwright top --play tuesday.top
      gridwright top grid.yaml --at 14:05 --interval 1m
    """  # noqa: D301 - \b is a control character for click
    once = once or at is not None
    seconds, at_s, hosts = _checked(
        interval, at, once=once, file=file, record=record, play=play, json=json, servers=servers
    )
    if not once:
        return int(_watch(file, seconds, record, play, hosts))
    if at_s is not None:
        frame = _frame_of_then(file, at_s, seconds)
    else:
        frame = _last(play) if play is not None else _frame(file, seconds, hosts)
    Output("top", json=json).show(LazyResult(document=frame.document, text=lambda: _text(frame)))
    return int(ExitStatus.DONE if frame.whole else ExitStatus.ENVIRONMENT)


def _checked(
    interval: str,
    at: str | None,
    *,
    once: bool,
    file: Path | None,
    record: Path | None,
    play: Path | None,
    json: bool,
    servers: str | None,
) -> tuple[float, float | None, list[str]]:
    """Interval and time in seconds, servers. Raises GridwrightError with all that is wrong with the flags."""
    reader = Reader()
    seconds, at_s = reader.seconds("--interval", interval), reader.moment("--at", at)
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(f"{interval} is too short or too long", "--interval", "write a time from 0.1s to 1h")
    if json and not once:
        reader.problem("one document is one picture", "--json", "add --once")
    if not once and not (sys.stdout.isatty() and sys.stdin.isatty()):
        reader.problem("there is no terminal to show pictures on", "--once", "add --once, for one picture")
    if record is not None and (once or play is not None):
        reader.problem("only what is watched is recorded", "--record", "leave out --once and --play")
    if play is not None and file is not None:
        reader.problem("a recording says itself what was watched", "--play", "leave FILE out")
    if play is not None and at is not None:
        reader.problem("a recording is no history that nodes keep", "--at", "leave out --at, or --play")
    no_grid = play is not None or (file is None and not has_default_spec())
    hosts = named_servers(reader, servers, no_grid=no_grid)
    return reader.finish(seconds), at_s, hosts


def _frame(file: Path | None, interval_s: float, servers: Sequence[str]) -> Frame:
    """One picture of the grid, or of this machine. Raises GridwrightError."""
    from gridwright.monitor.frame import frame_of
    from gridwright.monitor.gathering import directories_of, sample_grid, sample_here, watched_libraries
    from gridwright.monitor.readings import Request

    grid = grid_here(file)
    if grid is None:
        return frame_of([sample_here(Request(interval_s))])
    request = Request(interval_s, directories=directories_of(grid))
    return frame_of(sample_grid(grid, request, servers), watched_libraries(grid), servers)


def _frame_of_then(file: Path | None, at_s: float, interval_s: float) -> Frame:
    """The picture of an earlier time. Raises GridwrightError."""
    from gridwright.monitor.gathering import watched_libraries
    from gridwright.monitor.history.choosing import open_histories

    grid = grid_here(file)
    libraries = [] if grid is None else watched_libraries(grid)
    return open_histories(grid).frame(at_s, interval_s, libraries)


def _last(play: Path) -> Frame:
    from gridwright.monitor.recording import Recording

    recording = Recording(play)
    return recording.frame(len(recording) - 1)


def _watch(
    file: Path | None, interval_s: float, record: Path | None, play: Path | None, servers: Sequence[str]
) -> ExitStatus:
    """Show pictures until the user has seen enough. Raises GridwrightError."""
    from contextlib import ExitStack, closing

    from gridwright.monitor.live import Player
    from gridwright.monitor.recording import Recorder, Recording

    if play is not None:
        return _show(Player(Recording(play)), interval_s)
    from gridwright.monitor.gathering import commands_of, watched_libraries
    from gridwright.monitor.readings import Request
    from gridwright.monitor.streams import NodeStreams, Watched

    grid = grid_here(file)
    libraries = [] if grid is None else watched_libraries(grid)
    request = Request(interval_s, 0, tuple(library.directory for library in libraries))
    commands = commands_of(grid, servers)
    with ExitStack() as stack:
        recorder = None if record is None else stack.enter_context(Recorder(record, libraries))
        streams = stack.enter_context(NodeStreams(commands, request))
        watched = stack.enter_context(closing(Watched(streams, libraries, recorder, servers)))
        return _show(watched, interval_s)


def _show(pictures: Pictures, interval_s: float) -> ExitStatus:
    from gridwright.monitor.live import TopApp

    app = TopApp(pictures, interval_s)
    app.run()
    if app.failure is not None:
        raise app.failure
    return ExitStatus.INTERRUPTED if app.stopped else ExitStatus.DONE


def _text(frame: Frame) -> str:
    from gridwright.monitor.views import frame_text

    return frame_text(frame)
