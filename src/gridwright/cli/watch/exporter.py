"""`gridwright exporter`: what this node does now, for Prometheus and others that keep it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, Reader, SpecFile, read_path
from gridwright.cli.flags import verb
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.services.listening import Listening

TOKEN_VARIABLE = "GRIDWRIGHT_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_PORT = 29118
"""Outside of 9100 to 9999, which exporters share, and below the ports of outgoing connections."""
_SHORTEST_S, _LONGEST_S = 0.1, 60.0


@dataclass(frozen=True)
class ExporterFlags:
    """The flags, each with its help."""

    file: SpecFile = None
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 for a free one.")] = (
        DEFAULT_PORT
    )
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="An IP address of this machine.")
    ] = "127.0.0.1"
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="PATH", parser=read_path, help="For TLS: PEM, with its chain."),
    ] = None
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PATH", parser=read_path, help="Its key, as PEM.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="PATH",
            parser=read_path,
            help=f"What every request must have; else the variable {TOKEN_VARIABLE}.",
        ),
    ] = None
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy", metavar="ADDRESS", help="The site's proxy, which alone may connect; repeat it."
        ),
    ] = None
    proxy_header: Annotated[
        str | None,
        typer.Option("--proxy-header", metavar="NAME", help="The header in which the proxy has the token."),
    ] = None
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="Scrapes within it share a sample.")
    ] = "1s"
    directory: Annotated[
        list[Path] | None,
        typer.Option(
            "--directory",
            metavar="PATH",
            parser=read_path,
            help="A library's directory, where no FILE names it.",
        ),
    ] = None


@verb
def exporter(flags: ExporterFlags) -> int:
    """Serve what this node does now as OpenMetrics, for Prometheus and VictoriaMetrics.

    It answers GET /metrics, on this machine alone by default. Another address needs --certificate, --key and
    a token; or the site's --proxy, which does TLS and has the token in --proxy-header. FILE, or ./grid.yaml,
    names the directories of libraries.

    \b
    Examples:
      gridwright exporter
      gridwright exporter --listen 10.0.0.7 --certificate node.pem --key node.key --token-file token
    """  # noqa: D301 - \b is a control character for click
    reader = Reader()
    seconds = reader.seconds("--interval", flags.interval)
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(
            f"{flags.interval} is too short or too long", "--interval", "write a time from 0.1s to 1min"
        )
    listening = reader.attempt(lambda: _listening(flags))
    directories = reader.attempt(lambda: _directories(flags.file, flags.directory or []))
    return int(_serve(reader.finish(listening), reader.finish(seconds), reader.finish(directories)))


def _listening(flags: ExporterFlags) -> Listening:
    """Where to listen. Raises GridwrightError with all that is wrong with it."""
    from gridwright.services.listening import ListeningChoice, listening_of

    return listening_of(
        ListeningChoice(
            address=flags.listen,
            port=flags.port,
            certificate=flags.certificate,
            key=flags.key,
            token_file=flags.token_file,
            token=os.environ.get(TOKEN_VARIABLE),
            proxies=flags.proxy or [],
            proxy_header=flags.proxy_header,
        )
    )


def _directories(file: Path | None, named: list[Path]) -> tuple[str, ...]:
    """Those of the spec, and those that were named. Raises GridwrightError."""
    paths = [str(each) for each in named]
    if file is not None or (DEFAULT_SPEC.exists() and not named):
        from gridwright.spec import load_spec

        spec = load_spec(file or DEFAULT_SPEC)
        paths += [str(spec.library_directory(name)) for name in spec.libraries]
    return tuple(dict.fromkeys(paths))


def _serve(listening: Listening, interval_s: float, directories: tuple[str, ...]) -> ExitStatus:
    """Answer until a signal comes. Raises GridwrightError where it cannot listen there."""
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.monitor.exporter.page_program import PageOrder
    from gridwright.monitor.exporter.pages import Pages
    from gridwright.monitor.exporter.server import MetricsServer

    with stop_on_signals() as stop, Pages(PageOrder(interval_s, directories)) as pages:
        server = MetricsServer(listening, pages)
        sys.stderr.write(f"metrics of this node: {server.url}/metrics\n")
        server.serve(stop.is_set)
    return ExitStatus.DONE
