"""The command `gridwright`: hands on to a verb and turns errors into messages and exit statuses."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn, cast

import typer

from gridwright import __version__
from gridwright.cli.streams import protect_streams
from gridwright.cli.verbosity import Quiet, Verbose
from gridwright.cli.verbs import Verbs, plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem

# Wrong flags, missing arguments: typer shows this class only as a base of its own errors.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])

app = plain_app(
    name="gridwright",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    about=(
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
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Hold the options of `gridwright` itself."""


def run() -> None:
    """Run the command line; the only place where errors become exit statuses."""
    arguments = sys.argv[1:]
    protect_streams()
    try:
        status = app(args=arguments, prog_name="gridwright", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        _refuse(error, arguments)
    except GridwrightError as error:
        from gridwright.cli.named_spec import naming_spec

        problems = [naming_spec(problem) for problem in error.problems]
        for problem in problems:
            typer.echo(f"error: {problem}", err=True)
        print_json_problems(problems, command=arguments)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    except Exception as error:
        from gridwright.cli.environment import environment_fault
        from gridwright.spec.kinds import extension_at_fault

        fault = extension_at_fault(error) or environment_fault(error)
        if fault is None:
            raise
        typer.echo(f"error: {fault}", err=True)
        print_json_problems([fault], command=arguments)
        sys.exit(ExitStatus.ENVIRONMENT)
    sys.exit(status if isinstance(status, int) else ExitStatus.DONE)


def _refuse(error: typer.BadParameter, arguments: list[str]) -> NoReturn:
    """Say what the parser did not understand; a group that was called without a command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        sys.exit(ExitStatus.INPUT)
    from gridwright.cli.parser_errors import problem_of

    words = itertools.takewhile(lambda word: not word.startswith("-"), arguments)
    problem = problem_of(error, " ".join(["gridwright", *itertools.islice(words, 1)]))
    typer.echo(f"error: {problem}", err=True)
    print_json_problems([problem], command=arguments)
    sys.exit(ExitStatus.INPUT)


def print_json_problems(problems: Sequence[Problem], *, command: Sequence[str]) -> None:
    """With `--json`, say what is wrong in one document on stdout, too."""
    ours = list(command)
    if "--json" not in ours[: ours.index("--") if "--" in ours else len(ours)]:
        return
    from dataclasses import asdict

    from gridwright.cli.output import LazyResult, Output

    verb = next((word for word in command if not word.startswith("-")), None)
    refusal = {"ok": False, "problems": [asdict(problem) for problem in problems]}
    # Where stdout takes nothing, stderr has said what is wrong.
    with contextlib.suppress(GridwrightError):
        Output(verb, json=True).show(LazyResult(document=lambda: refusal, text=str))
