"""What `gridwright doctor` does with its flags."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, Reader
from gridwright.cli.prove.doctor_show import document, print_results
from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import ExitStatus, input_error, nearest

if TYPE_CHECKING:
    from gridwright.doctor.check import CheckResult
    from gridwright.doctor.observation import Seen
    from gridwright.spec import GridSpec


def run_doctor(
    file: Path | None, *, nodes: str | None, only: Sequence[str], everything: bool, json: bool
) -> ExitStatus:
    """Examine and print; returns the exit status. Raises GridwrightError."""
    _check_names(only)
    spec = load_placed(file) if file is not None or DEFAULT_SPEC.exists() else None
    if spec is not None and spec.is_bought:
        note_this_machine(spec)
    seen = _see(spec, nodes, only)
    results = _judge(seen, only)
    if json:
        typer.echo(json_module.dumps(document(results), indent=2))
    else:
        print_results(results, seen, everything=everything or bool(only))
    return _status(seen, results)


def _check_names(only: Sequence[str]) -> None:
    from gridwright.doctor.checks import all_checks

    known = [check.name for check in all_checks()]
    reader = Reader()
    for name in only:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}? " if near else ""
            reader.problem(f"there is no check {name!r}", "--only", f"{hint}docs/doctor.md has all names")
    reader.finish(True)


def _see(spec: GridSpec | None, nodes: str | None, only: Sequence[str]) -> Seen:
    from gridwright.doctor.access import access_to
    from gridwright.doctor.checks import needs_pairs
    from gridwright.doctor.examination import see
    from gridwright.grid.grid import Grid

    access = access_to(Grid.open(spec), nodes) if spec is not None else None
    if access is None and nodes is not None:
        raise input_error(
            "this machine alone is looked at, and has no node set",
            where="--nodes",
            remedy="leave --nodes out, or name the spec of a grid of several nodes",
        )
    return see(spec, access, pairs=needs_pairs(only))


def _judge(seen: Seen, only: Sequence[str]) -> list[CheckResult]:
    from gridwright.doctor.checks import all_checks
    from gridwright.doctor.results import results_of

    results = results_of(seen, [check for check in all_checks() if not only or check.name in only])
    return [each for each in results if not only or each.name in only]


def _status(seen: Seen, results: Sequence[CheckResult]) -> ExitStatus:
    from gridwright.doctor.results import counts

    if not seen.facts:
        return ExitStatus.ENVIRONMENT
    failed = any(counts(each) and each.level == "error" for each in results)
    return ExitStatus.MISSED if failed else ExitStatus.DONE
