"""`gridwright runs list | show | compare`: past runs."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunName, RunsDirectory
from gridwright.cli.verbs import plain_app

runs = plain_app("List, show and compare past runs.", no_args_is_help=True)


@runs.command("list")
def list_(runs: RunsDirectory = DEFAULT_RUNS, json: Json = False) -> None:
    """List all runs, oldest first, with status and verdict."""
    from gridwright.cli.prove import runs_show

    runs_show.show_list(runs, json=json)


@runs.command()
def show(run: RunName = "last", runs: RunsDirectory = DEFAULT_RUNS, json: Json = False) -> None:
    """Show what a run measured; one that was killed shows what it measured until then."""
    from gridwright.cli.prove import runs_show

    runs_show.show_run(runs, run, json=json)


@runs.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run: directory, name or `last`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another run.")],
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Compare two runs: the ratio B/A of every figure, with the noise of the samples."""
    from gridwright.cli.prove import runs_show

    runs_show.show_comparison(runs, a, b, json=json)
