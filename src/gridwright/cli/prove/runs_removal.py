"""`gridwright runs rm | prune`: removes runs that nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_RUNS, Json, Reader, RunsDirectory
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.verbosity import say
from gridwright.errors import ExitStatus, GridwrightError, Problem

if TYPE_CHECKING:
    from gridwright.runs.directory import RunOnDisk

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
    from gridwright.cli.confirm import confirm
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
