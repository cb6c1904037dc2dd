"""Turns logs into the events of a run, which lead to the same record, tables and report.

Finds the logs that a user means: files as named, and those below a directory.

Reads a file of a scheduler's accounting: which kind it is, what its jobs are as launches.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.errors import Finding, GridwrightError, Problem, input_error
from gridwright.handed_files import open_file, text_lines, unpacked, unpacked_within
from gridwright.refusals import refusal
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_events import ImportRefused, LaunchEnded, WorkloadBegun, WorkloadEvent
from gridwright.workload.imports.accounting import (
    SACCT_FORMAT,
    Accounts,
    assign_streams,
    read_bacct,
    read_lsb_acct,
    read_sacct_json,
    read_sacct_rows,
)
from gridwright.workload.imports.sas_log import read_sas_log

_SAMPLE_BYTES = 1 << 16
_MOST_JSON_BYTES = 128 << 20
MOST_LINES = 1_000_000
"""Of accounting: each job has some, and a thousand nodes have as many in weeks."""
_LINES_NAMED = 5
_SACCT = f"sacct --allusers --parsable2 --starttime now-7days --format {SACCT_FORMAT}"


def accounting_kind(path: Path) -> str | None:
    """Which kind of accounting a file holds, by its beginning; None if it holds none. Raises OSError."""
    with open_file(path) as file:
        sample = next(unpacked(file, path, _SAMPLE_BYTES), b"")[:_SAMPLE_BYTES]
    first = sample.lstrip().split(b"\n", 1)[0].rstrip(b"\r")
    if first.startswith(b'"') and b'"JOB_' in sample:
        return "lsb.acct"
    if b"|" in first and (b"JobID" in first.split(b"|") or _is_job_row(first)):
        return "sacct"
    if first.startswith(b"{") and b'"jobs"' in sample:
        return "sacct --json"
    if first.startswith(b"{") and b'"meta"' in sample and b"lurm" in sample:
        return "sacct --json"
    if b"Accounting information about" in sample or (b"Job <" in first and b"Status <" in sample):
        return "bacct"
    return None


def _is_job_row(line: bytes) -> bool:
    """Whether a line is one of sacct's without its header."""
    job = line.split(b"|", 1)[0].split(b".", 1)[0].replace(b"_", b"")
    return job.isdigit() and line.count(b"|") >= 3


def read_accounting(path: Path, kind: str, *, first_number: int) -> tuple[list[LaunchRecord], list[Finding]]:
    """Read the jobs of a file as launches, numbered from `first_number`.

    Raises GridwrightError where it holds no job that has ended, or does not tell what is needed; OSError.
    """
    accounts = _READERS[kind](path)
    if not accounts.jobs:
        unread = f" and {len(accounts.unreadable)} that cannot be read" if accounts.unreadable else ""
        raise input_error(
            f"this accounting ({kind}) holds no job that has ended: {accounts.unfinished} others{unread}",
            where=str(path),
            remedy="ask for jobs that have ended, of all users and of a longer time",
        )
    launches = [job.launch(number, str(path)) for number, job in enumerate(accounts.jobs, start=first_number)]
    return launches, _findings(path.name, kind, accounts)


def _read_sacct(path: Path) -> Accounts:
    with _lines(path) as lines:
        try:
            return read_sacct_rows(lines)
        except ValueError as error:
            raise input_error(
                f"sacct printed no {error}, or no header",
                where=str(path),
                remedy=f"print it anew: {_SACCT}",
            ) from None


def _read_json(path: Path) -> Accounts:
    try:
        return read_sacct_json(unpacked_within(path, _MOST_JSON_BYTES))
    except ValueError as error:
        raise input_error(
            f"this is no document of sacct --json that can be read: {error}",
            where=str(path),
            remedy=f"print it anew for less, or as text, which can be larger: {_SACCT}",
        ) from None


def _read_lsb_acct(path: Path) -> Accounts:
    with _lines(path) as lines:
        return read_lsb_acct(lines)


def _read_bacct(path: Path) -> Accounts:
    # Whose dates have no year ended before the file was written, by and large.
    with _lines(path) as lines:
        return read_bacct(lines, min(time.time(), path.stat().st_mtime) + 86400.0)


_READERS: dict[str, Callable[[Path], Accounts]] = {
    "sacct": _read_sacct,
    "sacct --json": _read_json,
    "lsb.acct": _read_lsb_acct,
    "bacct": _read_bacct,
}


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    with open_file(path) as file:
        yield text_lines(file, path, MOST_LINES, "ask for less: a shorter time, or one user")


def _findings(name: str, kind: str, accounts: Accounts) -> list[Finding]:
    found = []
    if accounts.unfinished:
        found.append(
            Finding(
                "info",
                "accounting-unfinished",
                f"{name} tells of {accounts.unfinished} jobs that have not run to an end: they are left out",
                "print the accounting again when they have ended",
            )
        )
    if accounts.unreadable:
        lines = ", ".join(map(str, accounts.unreadable[:_LINES_NAMED]))
        more = (
            f" and {len(accounts.unreadable) - _LINES_NAMED} more"
            if len(accounts.unreadable) > _LINES_NAMED
            else ""
        )
        place = "jobs" if kind == "sacct --json" else "lines"
        found.append(
            Finding(
                "warning",
                "accounting-unreadable",
                f"{name} holds {len(accounts.unreadable)} records that cannot be read "
                f"({place} {lines}{more})",
                "look at them: a name may hold the separator of the fields, or the file was cut",
            )
        )
    if any(job.user_s is None for job in accounts.jobs):
        found.append(
            Finding(
                "warning",
                "accounting-no-cpu-time",
                f"{name} tells no CPU time of some jobs, so they have no CPU/real ratio",
                f"ask for it: {_SACCT}" if kind.startswith("sacct") else "nothing can be done",
            )
        )
    return found


# Also those that were rotated (night.log.3, night.log-20261121) or packed.
_LOG_NAME = re.compile(r".+\.(?:log|acct|html?)(?:[.-]?\d{1,14})?(?:\.gz)?", re.IGNORECASE)


@dataclass(slots=True)
class LogFiles:
    """Files to be read as logs, in the order of the command line, and files that are none."""

    files: list[Path] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)
    """Files below a directory that are no logs by their names."""


def find_logs(names: Sequence[Path]) -> LogFiles:
    """Find the logs; a directory stands for all logs below it, by name and in the order of their paths."""
    files = LogFiles()
    for name in names:
        if not name.is_dir():
            files.files.append(name)
            continue
        try:
            below = sorted(_files_below(name))
        except GridwrightError as error:
            files.refused += error.problems
            continue
        logs = [path for path in below if _LOG_NAME.fullmatch(path.name)]
        files.files += logs
        files.passed_over += [path for path in below if path not in set(logs)]
        if not logs:
            files.refused.append(
                Problem(
                    f"there is no log below this directory, by name: {len(below)} other files",
                    where=str(name),
                    remedy="Logs are named *.log, *.html or *.acct, also numbered and packed "
                    "(.log.1, .log.gz); name others one by one.",
                )
            )
    return files


def _files_below(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, without those that are hidden. Raises GridwrightError."""

    def unreadable(error: OSError) -> None:
        where = str(error.filename or directory)
        why = refusal(where, error, "name directories that you may read")
        raise input_error(
            f"the directory cannot be read: {why.reason}", where=where, remedy=why.remedy
        ) from error

    # Links to directories are not followed: they may lead in a circle.
    for place, below, names in os.walk(directory, onerror=unreadable):
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))


_NAMED = 5
"""Files named one by one in a finding."""


def import_logs(names: Sequence[Path], *, node: str) -> list[WorkloadEvent]:
    """Read logs, each one launch; those that cannot be read are told beside them.

    Raises GridwrightError that names every log if there is none that can be read.
    """
    files = find_logs(names)
    refused = list(files.refused)
    launches: list[LaunchRecord] = []
    findings: list[Finding] = []
    for log in files.files:
        try:
            read, told = _read(log, node, len(launches) + 1)
        except GridwrightError as error:
            refused += error.problems
            continue
        launches += read
        findings += told
    if not launches:
        raise GridwrightError(*refused)
    if files.passed_over:
        findings.append(_passed_over(files.passed_over))
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
    launch, findings = read_sas_log(log, number=number, node=node)
    return [replace(launch, log=str(log))], findings


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
