"""`gridwright runs` and `report`: past runs listed, shown, compared, removed, and written up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, Reader, RunName, RunsDirectory, read_path
from gridwright.cli.output import LazyResult, Output, check_output
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem

if TYPE_CHECKING:
    from gridwright.runs.directory import RunOnDisk


runs = plain_app("List, show, compare and remove past runs.", no_args_is_help=True)


@runs.command("list")
def list_(runs: RunsDirectory = DEFAULT_RUNS, json: Json = False) -> None:
    """List all runs, oldest first, with age, verdict, grade, and the figure closest to what is required.

    Where runs of several users are there, each has the name of its owner.
    """
    from gridwright.report.figures import seconds_since
    from gridwright.report.terminal.run import runs_text
    from gridwright.report.verdict import is_summed_up, summarize
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


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")]


def rm(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs: directories, names, or `last`.")],
    runs: RunsDirectory = DEFAULT_RUNS,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Remove runs, with all that was measured.

    A run that is in progress stays, and so does a directory that holds anything else than a run leaves:
    nothing is removed then.

    Example: gridwright runs rm 20261101T080000Z-demo --dry-run
    """
    from gridwright.runs.directory import look_at_run
    from gridwright.runs.place import find_run

    now = datetime.now(UTC)
    disks = [look_at_run(path, now) for path in dict.fromkeys(find_run(runs, name) for name in run)]
    refused = [
        Problem(f"it is not removed: {disk.kept}", str(disk.path), remedy=_REMEDY)
        for disk in disks
        if disk.kept is not None
    ]
    if refused:
        raise GridwrightError(*refused, status=ExitStatus.INPUT)
    _remove("runs rm", runs, disks, [], yes=yes, dry_run=dry_run, json=json)


def prune(
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Keep your newest N runs.")
    ] = None,
    older: Annotated[
        str | None, typer.Option("--older", metavar="TIME", help="Keep what began within TIME, such as 90d.")
    ] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Remove old runs of yours: those that neither --keep nor --older keeps.

    Where users share the directory, runs of others neither count nor go; root, too, prunes its own alone.

    A run that is in progress stays, and so does a directory that holds anything else than a run leaves.

    Example: gridwright runs prune --keep 20 --older 90d --dry-run
    """
    from gridwright.runs.directory import runs_below
    from gridwright.runs.place import check_place, own_runs, owners_in_words, run_directories

    reader = Reader()
    older_s = reader.age("--older", older)
    if keep is None and older is None:
        reader.problem(
            "neither --keep nor --older says which runs stay", "runs prune", "add one, such as --keep 20"
        )
    reader.finish(True)
    check_place(runs)
    disks = runs_below(runs, datetime.now(UTC))
    old = [
        disk for disk in disks[keep or 0 :] if older_s is None or disk.age_s is None or disk.age_s > older_s
    ]
    there = run_directories(runs)
    if others := owners_in_words(set(there).difference(own_runs(there))):
        say(f"runs of others stay, whatever their age: {others}")
    going = [each for each in old if each.kept is None]
    staying = [each for each in old if each.kept is not None]
    _remove("runs prune", runs, going, staying, yes=yes, dry_run=dry_run, json=json)


_REMEDY = "name others; what is to go all the same, remove by hand"


def _remove(
    command: str,
    runs: Path,
    going: Sequence[RunOnDisk],
    staying: Sequence[RunOnDisk],
    *,
    yes: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Ask, remove, and say so. Raises GridwrightError."""
    from gridwright.cli.arguments import confirm
    from gridwright.runs.directory import remove_leavings, remove_run
    from gridwright.units import format_bytes

    if going and not dry_run:
        lines = [f"  {_shown(each)}" for each in going]
        confirm("\n".join(["These runs go, with all that was measured:", *lines]), yes=yes)
        for disk in going:
            remove_run(disk.path)
    if not dry_run:
        remove_leavings(runs)
    freed = sum(each.size_bytes for each in going)
    document = {
        "dry_run": dry_run,
        "removed": [str(each.path) for each in going],
        "freed_bytes": freed,
        "kept": [{"run": str(each.path), "reason": each.kept} for each in staying],
    }

    def text() -> str:
        verb = "would be removed" if dry_run else "removed"
        lines = [f"{_shown(each)}: {verb}" for each in going] if dry_run else []
        lines += [f"{each.path.name}: kept, {each.kept}" for each in staying]
        lines.append(f"{len(going)} run{'s'[: len(going) != 1]} {verb}, {format_bytes(freed)}")
        return "\n".join(lines)

    Output(command, json=json).show(LazyResult(document=lambda: document, text=text))


def _shown(run: RunOnDisk) -> str:
    from gridwright.report.figures import age
    from gridwright.units import format_bytes

    return f"{run.path.name} ({age(run.age_s)} old, {format_bytes(run.size_bytes)})"


def report(
    run: RunName = "last",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=read_path, help="Where to write it.  [default: RUN/report.html]"),
    ] = None,
    runs: RunsDirectory = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Build the HTML report of a run again.

    The run may be finished or interrupted; the report is one file that opens offline.
    """
    from gridwright.report.page import write_report
    from gridwright.runs.place import find_run

    reader = Reader()
    check_output(reader, "--out", out)
    path = write_report(find_run(runs, reader.finish(run)), out)
    Output("report", json=json).show(
        LazyResult(document=lambda: {"report": str(path)}, text=lambda: f"report: {path}"), indent=None
    )


runs.command("rm")(rm)
runs.command("prune")(prune)
