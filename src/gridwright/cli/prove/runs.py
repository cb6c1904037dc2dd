"""`gridwright runs list | show | compare | rm | prune`: past runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, RunName, RunsDirectory
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.prove.runs_removal import prune, rm
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import GridwrightError

runs = plain_app("List, show, compare and remove past runs.", no_args_is_help=True)


@runs.command("list")
def list_(runs: RunsDirectory = DEFAULT_RUNS, json: Json = False) -> None:
    """List all runs, oldest first, with age, verdict, grade, and the figure closest to what is required.

    Where runs of several users are there, each has the name of its owner.
    """
    from gridwright.report.figures import seconds_since
    from gridwright.report.run_summary import is_summed_up, summarize
    from gridwright.report.terminal.run import runs_text
    from gridwright.runs.directory import list_runs
    from gridwright.trusted import user_name

    damaged: list[GridwrightError] = []
    found = [run for run in list_runs(runs, damaged.append) if is_summed_up(run)]
    for error in damaged:
        say(f"left out: {error}")
    if not found and not json:
        say(f"no runs that can be read in {runs}" if damaged else f"no runs in {runs}")
        return
    now = datetime.now(UTC)
    entries = [
        {
            "run": str(entry.path),
            "owner": user_name(entry.owner),
            "name": entry.run.name,
            "started": entry.run.started,
            "finished": entry.run.finished,
            "status": entry.run.status,
            "met": entry.run.met,
            "age_s": seconds_since(entry.run.started, now),
            **summarize(entry).document(),
        }
        for entry in found
    ]
    Output("runs list", json=json).show(
        LazyResult(document=lambda: {"runs": entries}, text=lambda: runs_text(found, now))
    )


@runs.command()
def show(run: RunName = "last", runs: RunsDirectory = DEFAULT_RUNS, json: Json = False) -> None:
    """Show what a run measured; one that was killed shows what it measured until then."""
    from gridwright.report.terminal.run import run_text
    from gridwright.runs.directory import load_run
    from gridwright.runs.place import find_run
    from gridwright.runs.records import figures_of

    loaded = load_run(find_run(runs, run), with_samples=False)
    parts = {
        "run": loaded.run,
        "iotest": loaded.iotest,
        "workload": loaded.workload,
        "sweep": loaded.sweep,
    }
    document = {
        "path": str(loaded.path),
        **{
            name: part.model_dump(mode="json", by_alias=True) if part else None
            for name, part in parts.items()
        },
    }
    with figures_of(loaded.path):
        Output("runs show", json=json).show(
            LazyResult(document=lambda: document, text=lambda: run_text(loaded))
        )


@runs.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run: directory, name or `last`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another run.")],
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Compare two runs: the ratio B/A of every figure, its noise, and what change repeats can tell."""
    from gridwright.report.terminal.run import comparison_text
    from gridwright.runs.compare import compare_runs
    from gridwright.runs.directory import load_run
    from gridwright.runs.place import find_run
    from gridwright.runs.records import figures_of

    one, other = load_run(find_run(runs, a)), load_run(find_run(runs, b))
    with figures_of(other.path):
        comparisons = compare_runs(one, other)
        document = {
            "a": str(one.path),
            "b": str(other.path),
            "figures": [asdict(comparison) for comparison in comparisons],
        }
        Output("runs compare", json=json).show(
            LazyResult(document=lambda: document, text=lambda: comparison_text(one, other, comparisons))
        )


runs.command("rm")(rm)
runs.command("prune")(prune)
