"""Reads a file of a scheduler's accounting: which kind it is, what its jobs are as launches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gridwright.errors import Finding, input_error
from gridwright.handed_files import open_file, text_lines, unpacked, unpacked_within
from gridwright.runs.launch_record import LaunchRecord
from gridwright.workload.accounting import lsf_acct, lsf_bacct, slurm_json, slurm_text
from gridwright.workload.accounting.job import Accounts

_SAMPLE_BYTES = 1 << 16
_MOST_JSON_BYTES = 128 << 20
MOST_LINES = 1_000_000
"""Of accounting: each job has some, and a thousand nodes have as many in weeks."""
_LINES_NAMED = 5
_SACCT = f"sacct --allusers --parsable2 --starttime now-7days --format {slurm_text.FORMAT}"


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
            return slurm_text.read_rows(lines)
        except ValueError as error:
            raise input_error(
                f"sacct printed no {error}, or no header",
                where=str(path),
                remedy=f"print it anew: {_SACCT}",
            ) from None


def _read_json(path: Path) -> Accounts:
    try:
        return slurm_json.read_document(unpacked_within(path, _MOST_JSON_BYTES))
    except ValueError as error:
        raise input_error(
            f"this is no document of sacct --json that can be read: {error}",
            where=str(path),
            remedy=f"print it anew for less, or as text, which can be larger: {_SACCT}",
        ) from None


def _read_lsb_acct(path: Path) -> Accounts:
    with _lines(path) as lines:
        return lsf_acct.read_events(lines)


def _read_bacct(path: Path) -> Accounts:
    # Whose dates have no year ended before the file was written, by and large.
    with _lines(path) as lines:
        return lsf_bacct.read_paragraphs(lines, min(time.time(), path.stat().st_mtime) + 86400.0)


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
