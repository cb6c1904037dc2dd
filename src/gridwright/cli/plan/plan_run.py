"""What `gridwright plan` does with its flags."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import Reader
from gridwright.cli.output_file import check_output, write_output
from gridwright.cli.spec_file import load
from gridwright.errors import ExitStatus, input_error

if TYPE_CHECKING:
    from gridwright.plan.design import Design, Plan


OWN_CATALOGUES = ("catalog.yaml", "catalog.csv")
"""What beside a spec overrides the packaged catalogue."""


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

    spec = load(flags.file)
    found = plan(spec, explain=flags.explain)
    chosen = _chosen(flags, found)
    if flags.html is not None:
        from gridwright.report.designs.page import plan_page

        write_output(flags.html, plan_page(found))
    if flags.json:
        from gridwright.plan.document import plan_document

        typer.echo(json.dumps({"schema": 1, "command": "plan", **plan_document(found)}, indent=2))
    elif flags.explain is not None and found.explanation is not None:
        from gridwright.report.terminal.plan import print_explanation

        print_explanation(found.explanation)
    else:
        from gridwright.report.terminal.plan import print_plan

        print_plan(found)
    if chosen is not None and spec.file is not None:
        _write(flags, chosen, spec.file)
    if flags.html is not None:
        typer.echo(f"page: {flags.html}", err=flags.json)
    return ExitStatus.DONE if found.designs else ExitStatus.MISSED


def _check(flags: PlanFlags) -> None:
    """Refuse, before the search, what could not be written after it."""
    reader = Reader()
    if flags.write is None and flags.choose != 1:
        reader.problem("--choose says which design to write", "--choose", "add --write OUT")
    check_output(reader, "--write", flags.write, overwrite=flags.overwrite)
    check_output(reader, "--html", flags.html)
    reader.finish(flags)


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


def _write(flags: PlanFlags, chosen: Design, spec_file: Path) -> None:
    if flags.write is None:
        return
    from gridwright.plan.grid_spec import spec_text

    write_output(flags.write, spec_text(chosen.spec))
    typer.echo(f"design {flags.choose} written: {flags.write}", err=flags.json)
    own = [spec_file.parent / name for name in OWN_CATALOGUES if (spec_file.parent / name).is_file()]
    if own and spec_file.parent != flags.write.parent.resolve():
        names = ", ".join(str(each) for each in own)
        typer.echo(f"note: copy {names} beside it: prices and types of its own came from there", err=True)
