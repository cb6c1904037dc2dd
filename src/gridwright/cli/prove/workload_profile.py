"""What `gridwright workload --profile OUT` and `gridwright workload profile RUN OUT` do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.errors import ExitStatus, Finding, Problem, input_error

if TYPE_CHECKING:
    from gridwright.runs.profiles import Profiles
    from gridwright.runs.records import RunRecord
    from gridwright.runs.workload_record import WorkloadRecord


def check_place(out: Path | None) -> list[Problem]:
    """What is wrong with the place of the profiles; looked at before the run, which may take hours."""
    if out is None:
        return []
    if out.is_dir():
        return [
            Problem("is a directory", where=f"--profile {out}", remedy=f"name a file: {out}/profiles.json")
        ]
    if not out.absolute().parent.is_dir():
        remedy = f"make it, or name another place: {out.name}"
        return [Problem(f"there is no directory {out.parent}", where=f"--profile {out}", remedy=remedy)]
    return []


def write_profiles(out: Path, run: RunRecord, workload: WorkloadRecord) -> tuple[Profiles, list[Finding]]:
    """Write the profiles of a run and say so on stderr. Raises GridwrightError."""
    from gridwright.runs.profile_record import profiles_of
    from gridwright.runs.profiles import save_profiles
    from gridwright.workload.profile_sizes import data_bytes

    profiles, findings = profiles_of(run, workload, data_bytes=data_bytes())
    save_profiles(out, profiles)
    typer.echo(f"profiles: {out} ({len(profiles.profiles)} tests, scale {profiles.scale})", err=True)
    for finding in findings:
        typer.echo(f"{finding.level} {finding.name}: {finding.text}\n  {finding.remedy}", err=True)
    return profiles, findings


def write_profiles_after_run(
    out: Path, run: RunRecord, workload: WorkloadRecord, status: ExitStatus
) -> ExitStatus:
    """Write the profiles of a run whose results are printed already.

    What goes wrong is said on stderr; returns the exit status, which was `status` so far.
    """
    from gridwright.errors import GridwrightError

    try:
        write_profiles(out, run, workload)
    except GridwrightError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        return error.status if status == ExitStatus.DONE else status
    return status


def profile_run(runs: Path, name: str, out: Path, *, json: bool) -> ExitStatus:
    """Write the profiles of a run that ended; returns the exit status. Raises GridwrightError."""
    import json as json_module
    from dataclasses import asdict

    from gridwright.errors import GridwrightError
    from gridwright.runs.directory import load_run
    from gridwright.runs.find import find_run

    if problems := check_place(out):
        raise GridwrightError(*problems)
    loaded = load_run(find_run(runs, name), with_samples=False)
    if loaded.workload is None:
        raise input_error(
            "the run has no workload",
            where=str(loaded.path),
            remedy="name a run of `gridwright workload` or `gridwright prove`: gridwright runs list",
        )
    profiles, findings = write_profiles(out, loaded.run, loaded.workload)
    if json:
        document = {
            "schema": 1,
            "command": "workload profile",
            "profiles": str(out),
            "tests": list(profiles.profiles),
            "findings": [asdict(finding) for finding in findings],
        }
        typer.echo(json_module.dumps(document, indent=2))
    return ExitStatus.DONE
