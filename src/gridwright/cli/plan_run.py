"""What `gridwright plan` does with its flags."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.spec_file import load
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.plan.design import Design, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """The flags as they were typed."""

    file: Path | None
    write: Path | None
    choose: int
    overwrite: bool
    explain: str | None
    html: Path | None
    json: bool


def run_plan(flags: PlanFlags) -> ExitStatus:
    """Plan and print; returns the exit status. Raises GridwrightError."""
    _check(flags)
    from gridwright.plan.search import plan

    found = plan(load(flags.file), explain=flags.explain)
    chosen = _chosen(flags, found)
    if flags.html is not None:
        from gridwright.report.design_page import plan_page
        from gridwright.runs.atomic import write_atomically

        write_atomically(flags.html, plan_page(found))
    if flags.json:
        from gridwright.plan.document import plan_document

        typer.echo(json.dumps({"schema": 1, "command": "plan", **plan_document(found)}, indent=2))
    elif flags.explain is not None and found.explanation is not None:
        from gridwright.report.terminal_plan import print_explanation

        print_explanation(found.explanation)
    else:
        from gridwright.report.terminal_plan import print_plan

        print_plan(found)
    _write(flags, chosen)
    if flags.html is not None:
        typer.echo(f"page: {flags.html}", err=flags.json)
    return ExitStatus.DONE if found.designs else ExitStatus.MISSED


def _check(flags: PlanFlags) -> None:
    """Refuse, before the search, what could not be written after it."""
    if flags.write is None:
        if flags.choose != 1:
            raise input_error(
                "--choose says which design to write", where="--choose", remedy="Add --write OUT"
            )
        return
    if flags.write.exists() and not flags.overwrite:
        raise input_error(
            "the file is there already", where=str(flags.write), remedy="Name another, or add --overwrite"
        )
    if not flags.write.parent.is_dir():
        raise input_error(
            "there is no such directory", where=str(flags.write.parent), remedy="Make it, or name another"
        )


def _chosen(flags: PlanFlags, found: Plan) -> Design | None:
    if flags.write is None or not found.designs:
        return None
    if flags.choose > len(found.designs):
        raise input_error(
            f"there are {len(found.designs)} designs, and number {flags.choose} is asked for",
            where="--choose",
            remedy=f"Write a rank from 1 to {len(found.designs)}",
        )
    return found.designs[flags.choose - 1]


def _write(flags: PlanFlags, chosen: Design | None) -> None:
    if chosen is None or flags.write is None:
        return
    from gridwright.plan.grid_spec import spec_text
    from gridwright.runs.atomic import write_atomically

    write_atomically(flags.write, spec_text(chosen.spec))
    typer.echo(f"design {flags.choose} written: {flags.write}", err=flags.json)
