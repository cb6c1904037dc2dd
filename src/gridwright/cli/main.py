"""The command `gridwright`: registers the verbs and turns errors into messages and exit statuses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Annotated, cast

import typer

from gridwright import __version__
from gridwright.cli.build.down import down
from gridwright.cli.build.lab import lab
from gridwright.cli.build.node import node
from gridwright.cli.build.render import render
from gridwright.cli.build.setup import setup
from gridwright.cli.build.status import status
from gridwright.cli.build.up import up
from gridwright.cli.output import Answer, Output
from gridwright.cli.plan.catalog import catalog
from gridwright.cli.plan.check import check
from gridwright.cli.plan.explain import explain
from gridwright.cli.plan.init import init
from gridwright.cli.plan.plan import plan
from gridwright.cli.plan.predict import predict
from gridwright.cli.plan.schema import schema
from gridwright.cli.prove.doctor import doctor
from gridwright.cli.prove.iotest import DEFAULT_UNTIL_STEADY, iotest
from gridwright.cli.prove.prove import prove
from gridwright.cli.prove.report import report
from gridwright.cli.prove.runs import runs
from gridwright.cli.prove.workload import workload
from gridwright.cli.streams import protect_streams
from gridwright.cli.work.cancel import cancel
from gridwright.cli.work.jobs import jobs
from gridwright.cli.work.logs import logs
from gridwright.cli.work.submit import submit
from gridwright.cli.work.wait import wait
from gridwright.errors import ExitStatus, GridwrightError, Problem

# Wrong flags, missing arguments: typer shows this class only as a base of its own errors.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])

# Plain help: the boxes that rich draws would double the time to the first line.
app = typer.Typer(
    name="gridwright",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=(
        "Plan, build, tune, prove and run analytics grids on parallel file systems, from one grid spec.\n\n"
        "FILE defaults to ./grid.yaml. Results go to stdout, progress and messages to stderr; --json prints "
        "one JSON document. Exit status: 0 done and all requirements met, 1 a requirement is missed, "
        "2 wrong input, 3 the environment failed, 130 interrupted."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gridwright {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options of `gridwright` itself."""


app.command()(init)
app.command()(check)
app.command()(schema)
app.command()(plan)
app.command()(render)
app.command()(setup)
app.command()(predict)
app.command()(up)
app.command()(status)
app.command()(down)
app.add_typer(lab, name="lab")
app.add_typer(node, name="node")
app.command(context_settings={"allow_interspersed_args": False})(submit)
app.command()(jobs)
app.command()(logs)
app.command()(cancel)
app.command()(wait)
app.command()(explain)
app.command()(doctor)
app.command()(iotest)
app.add_typer(workload, name="workload")
app.command()(prove)
app.add_typer(runs, name="runs")
app.add_typer(catalog, name="catalog")
app.command()(report)


def run() -> None:
    """Run the command line; the only place where errors become exit statuses."""
    arguments = with_default_workload(with_default_longest(sys.argv[1:]))
    protect_streams()
    try:
        status = app(args=arguments, prog_name="gridwright", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        error.show()
        print_json_problems([Problem(what=error.format_message())], command=arguments)
        sys.exit(ExitStatus.INPUT)
    except GridwrightError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        print_json_problems(error.problems, command=arguments)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    sys.exit(status if isinstance(status, int) else ExitStatus.DONE)


def with_default_longest(arguments: list[str]) -> list[str]:
    """Give `--until-steady` its default where no time follows it: typer has no optional values."""
    given = list(arguments)
    if given[:1] == ["submit"]:
        return given
    # Behind -- is a command of the user's.
    ours = given.index("--") if "--" in given else len(given)
    for index, argument in enumerate(given[:ours]):
        follower = given[index + 1 : index + 2]
        if argument == "--until-steady" and not (follower and follower[0][:1].isdigit()):
            given[index] = f"--until-steady={DEFAULT_UNTIL_STEADY}"
    return given


def with_default_workload(arguments: list[str]) -> list[str]:
    """Have `workload FILE` mean `workload run FILE`: typer has no group with a command of its own."""
    if arguments[:1] == ["workload"] and arguments[1:2] not in (["run"], ["import"], ["clean"], ["profile"]):
        return ["workload", "run", *arguments[1:]]
    return arguments


def print_json_problems(problems: Sequence[Problem], *, command: Sequence[str]) -> None:
    """With `--json`, say what is wrong in one document on stdout, too."""
    ours = list(command)
    if "--json" not in ours[: ours.index("--") if "--" in ours else len(ours)]:
        return
    from dataclasses import asdict

    verb = next((word for word in command if not word.startswith("-")), None)
    refusal = {"ok": False, "problems": [asdict(problem) for problem in problems]}
    # Where stdout takes nothing, stderr has said what is wrong.
    with contextlib.suppress(GridwrightError):
        Output(verb, json=True).show(Answer(document=lambda: refusal, text=str))
