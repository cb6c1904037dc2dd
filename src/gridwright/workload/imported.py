"""Turns SAS logs into the events of a run, which lead to the same record, tables and report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.runs.workload_events import LaunchEnded, WorkloadBegun, WorkloadEvent
from gridwright.runs.workload_record import LaunchRecord
from gridwright.workload.sas_log.launch import assign_streams, read_sas_log


def import_logs(logs: Sequence[Path], *, node: str) -> list[WorkloadEvent]:
    """Read logs, each one launch. Raises GridwrightError that names every log that is none."""
    problems: list[Problem] = []
    launches: list[LaunchRecord] = []
    findings: list[Finding] = []
    for number, log in enumerate(logs, start=1):
        try:
            launch, found = read_sas_log(log, number=number, node=node)
        except GridwrightError as error:
            problems += error.problems
            continue
        launches.append(launch.model_copy(update={"log": str(log)}))
        findings += found
    if problems:
        raise GridwrightError(*problems)
    placed = assign_streams(launches)
    header = WorkloadBegun(
        matrix=None,
        scale=None,
        seed=None,
        streams=max((launch.stream for launch in placed), default=0),
        launches=len(placed),
    )
    ended = [LaunchEnded(launch=launch.model_dump(by_alias=True)) for launch in placed]
    return [header, *findings, *ended]
