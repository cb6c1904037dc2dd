"""Turns logs into the events of a run, which lead to the same record, tables and report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.errors import Finding, GridwrightError, Problem, input_error
from gridwright.refusals import refusal
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import ImportRefused, LaunchEnded, WorkloadBegun, WorkloadEvent
from gridwright.workload.imports.accounting_file import accounting_kind, read_accounting
from gridwright.workload.imports.files import find_logs
from gridwright.workload.imports.streams import assign_streams
from gridwright.workload.sas_log.launch import read_sas_log

_NAMED = 5
"""Files named one by one in a finding."""


def import_logs(names: Sequence[Path], *, node: str) -> list[WorkloadEvent]:
    """Read logs, each one launch; those that cannot be read are told beside them.

    Raises GridwrightError that names every log if there is none that can be read.
    """
    found = find_logs(names)
    refused = list(found.refused)
    launches: list[LaunchRecord] = []
    findings: list[Finding] = []
    for log in found.files:
        try:
            read, told = _read(log, node, len(launches) + 1)
        except GridwrightError as error:
            refused += error.problems
            continue
        launches += read
        findings += told
    if not launches:
        raise GridwrightError(*refused)
    if found.passed_over:
        findings.append(_passed_over(found.passed_over))
    return _events(assign_streams(launches), findings, refused)


def name_of_import(events: Sequence[WorkloadEvent]) -> str:
    """What the run of an import is named by: where its launches were told."""
    launches = (event.launch for event in events if isinstance(event, LaunchEnded))
    return "jobs" if any(launch.job for launch in launches) else "sas-logs"


def _read(log: Path, node: str, number: int) -> tuple[list[LaunchRecord], list[Finding]]:
    """Read one file: the accounting of many jobs, or the log of one. Raises GridwrightError."""
    try:
        kind = accounting_kind(log) if log.is_file() else None
        if kind is not None:
            return read_accounting(log, kind, first_number=number)
    except OSError as error:
        why = refusal(log, error, "name a readable file")
        raise input_error(f"it cannot be read: {why.reason}", where=str(log), remedy=why.remedy) from error
    launch, told = read_sas_log(log, number=number, node=node)
    return [replace(launch, log=str(log))], told


def _events(
    launches: Sequence[LaunchRecord], findings: Iterable[Finding], refused: Iterable[Problem]
) -> list[WorkloadEvent]:
    header = WorkloadBegun(
        matrix=None,
        scale=None,
        seed=None,
        streams=max((launch.stream for launch in launches), default=0),
        launches=len(launches),
    )
    told = [
        ImportRefused(log=problem.where or "", reason=problem.what, remedy=problem.remedy or "")
        for problem in refused
    ]
    ended = [LaunchEnded(launch=launch) for launch in launches]
    return [header, *findings, *told, *ended]


def _passed_over(paths: Sequence[Path]) -> Finding:
    names = ", ".join(str(path) for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return Finding(
        "info",
        "import-passed-over",
        f"{len(paths)} files are no logs by their names, and were not read: {names}{more}",
        "Name those that are logs one by one.",
    )
