"""`gridwright exporter`: what this node does now, for Prometheus and others that keep it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Reader, SpecFile, read_path, verb
from gridwright.cli.output import Output
from gridwright.cli.spec_file import has_default_spec
from gridwright.cli.watch.listening_flags import ListeningFlags, listening_at, listening_words, program
from gridwright.errors import ExitStatus

if TYPE_CHECKING:
    from gridwright.services.listening import Listening

DEFAULT_PORT = 29118
"""Outside of 9100 to 9999, which exporters share, and below the ports of outgoing connections."""
_SHORTEST_S, _LONGEST_S = 0.1, 60.0


@dataclass(frozen=True)
class ExporterFlags(ListeningFlags):
    """The flags, each with its help."""

    file: SpecFile = None
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 for a free one.")] = (
        DEFAULT_PORT
    )
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
    unit: Annotated[
        bool, typer.Option("--unit", help="Print the unit of systemd that serves it so, and end.")
    ] = False
    dashboards: Annotated[
        Path | None,
        typer.Option(
            "--dashboards",
            metavar="DIR",
            parser=read_path,
            help="Write dashboards for Grafana there, and end.",
        ),
    ] = None
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="PATH",
            parser=read_path,
            help="Write FILE's requirements as alert rules for Prometheus, and end.",
        ),
    ] = None
    scrape_job: Annotated[
        str, typer.Option("--scrape-job", metavar="NAME", help="For --rules: the job_name of the scrapes.")
    ] = "gridwright"


@verb
def exporter(flags: ExporterFlags) -> int:
    """Serve what this node does now as OpenMetrics, for Prometheus and VictoriaMetrics.

    It answers GET /metrics, on this machine alone by default. Another address needs --certificate, --key and
    a token; or the site's --proxy, which does TLS and has the token in --proxy-header. FILE, or ./grid.yaml,
    names the directories of libraries.

    With --unit, --dashboards or --rules it serves nothing, and writes what other programs are to be given.

    \b
    Examples:
      gridwright exporter
      gridwright exporter grid.yaml --rules grid.rules.yml --dashboards dashboards
      gridwright exporter --listen 10.0.0.7 --certificate node.pem --key node.key --token-file token
    """  # noqa: D301 - \b is a control character for click
    if flags.dashboards is not None or flags.rules is not None:
        return int(_write(flags))
    reader = Reader()
    seconds = reader.seconds("--interval", flags.interval)
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        reader.problem(
            f"{flags.interval} is too short or too long", "--interval", "write a time from 0.1s to 1min"
        )
    listening = reader.attempt(lambda: listening_at(flags, flags.port))
    directories = reader.attempt(lambda: _directories(flags.file, flags.directory or []))
    checked = reader.finish(listening), reader.finish(seconds), reader.finish(directories)
    return int(_show_unit(flags, checked[2]) if flags.unit else _serve(*checked))


def _directories(file: Path | None, named: list[Path]) -> tuple[str, ...]:
    """Those of the spec, and those that were named. Raises GridwrightError."""
    paths = [str(path.absolute()) for path in named]
    if file is not None or (has_default_spec() and not named):
        from gridwright.cli.spec_file import load

        spec = load(file)
        paths += [str(spec.library_directory(name)) for name in spec.libraries]
    return tuple(dict.fromkeys(paths))


def _write(flags: ExporterFlags) -> ExitStatus:
    """Write dashboards and rules. Raises GridwrightError with all that is wrong with where to."""
    from gridwright.cli.output import check_output, write_output
    from gridwright.cli.spec_file import load
    from gridwright.monitor.exporter.rules import dashboard_files, is_scrape_job, rules_text

    reader, files = Reader(), dict[Path, str]()
    if not is_scrape_job(flags.scrape_job):
        reader.problem(
            f"{flags.scrape_job!r} is no job_name", "--scrape-job", "use letters, digits, _, -, . and :"
        )
    elif flags.rules is not None:
        check_output(reader, "--rules", flags.rules)
        spec = reader.attempt(lambda: load(flags.file))
        files |= {} if spec is None else {flags.rules: rules_text(spec, flags.scrape_job)}
    if flags.dashboards is not None:
        if not flags.dashboards.is_dir():
            reader.problem(f"there is no directory {flags.dashboards}", "--dashboards", "make it")
        files |= {flags.dashboards / name: text for name, text in dashboard_files().items()}
    reader.finish(True)
    for path, text in files.items():
        write_output(path, text)
    Output("exporter").write("\n".join(f"written   {path}" for path in files))
    return ExitStatus.DONE


def _show_unit(flags: ExporterFlags, directories: tuple[str, ...]) -> ExitStatus:
    """Print the unit, with every path from / on: where a service starts is not where it was printed."""
    from gridwright.setup.services import EXPORTER_UNIT, exporter_unit

    command = [program(), "exporter", *listening_words(flags, flags.port), "--interval", flags.interval]
    for directory in directories:
        command += ["--directory", directory]
    Output("exporter").write(f"# /etc/systemd/system/{EXPORTER_UNIT}\n{exporter_unit(command)}")
    return ExitStatus.DONE


def _serve(listening: Listening, interval_s: float, directories: tuple[str, ...]) -> ExitStatus:
    """Answer until a signal comes. Raises GridwrightError where it cannot listen there."""
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.monitor.exporter.page_program import PageOrder
    from gridwright.monitor.exporter.server import MetricsServer, Pages

    with stop_on_signals() as stop, Pages(PageOrder(directories), interval_s) as pages:
        server = MetricsServer(listening, pages)
        sys.stderr.write(f"metrics of this node: {server.url}/metrics\n")
        server.serve(stop.is_set)
    return ExitStatus.DONE
