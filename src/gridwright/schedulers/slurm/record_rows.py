"""Rows of the record of jobs: a submission, and the end of a job."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gridwright.schedulers.index_ranges import fold_indices
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.job_options import JobOptions
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_name import expand_indices

WHOLE = -1
"""The index of a job that is no array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request as it stands with Slurm."""

    number: int
    """Order of submission."""
    token: str
    attempt: int
    identifier: str | None
    """What users call it; Slurm's number, as long as that is ours alone."""
    slurm_id: int | None
    """Slurm's number of this attempt; None while it is not known that Slurm has it."""
    request: JobRequest
    doomed: str | None
    """The job that it should have waited for and that did not complete."""
    submitted: float
    seen: float
    """When Slurm last listed it; seconds since 1970."""
    owner: str | None
    lease: float
    """Until when its owner submits it."""
    orphaned_until: float | None
    """Slurm lost it after it had begun; by then slurmd has ended it, or it has ended by itself."""
    interruptions: int
    """Attempts that had begun and were lost."""
    live: bool
    """Whether any of its elements has not ended."""

    @property
    def tag(self) -> JobTag:
        """What its name in Slurm ends with."""
        return JobTag(self.token, self.attempt)

    @property
    def elements(self) -> tuple[int, ...]:
        """Indices of its jobs; WHOLE alone where it is no array."""
        return (WHOLE,) if self.request.array is None else tuple(self.request.array)

    def held(self, now: float) -> bool:
        """Whether a process that lives is submitting it."""
        return self.owner is not None and self.lease > now and _owner_lives(self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How one job has ended."""

    token: str
    element: int
    state: JobState
    exit_status: int | None = None
    signal: int | None = None
    reason: str | None = None
    node: str | None = None
    queue: str | None = None
    started: float | None = None
    ended: float | None = None
    restarts: int = 0
    attempt: int = 0
    cpu_s: float | None = None
    """User and system time, as its own script wrote it down; below 0 where that wrote nothing."""
    recorded: float = 0.0


def this_process() -> str:
    """A name of this process that no later one has: host, number and start time."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_time(os.getpid())}"


def _start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _owner_lives(owner: str) -> bool:
    """Whether a process lives; one of another host is taken to, as long as its lease runs."""
    host, pid, start = owner.rsplit("/", 2)
    return host != socket.gethostname() or (start != "" and _start_time(int(pid)) == start)


def request_text(request: JobRequest) -> str:
    """A request as JSON; bytes that are no UTF-8 are escaped, as lone surrogates."""
    values = {field.name: getattr(request, field.name) for field in fields(JobRequest)}
    values["array"] = None if request.array is None else fold_indices(request.array)
    values |= {name: dict(values[name]) for name in ("environment", "libraries")}
    values |= {name: list(values[name]) for name in ("command", "after")}
    values["options"] = asdict(request.options)
    return json.dumps(values)


def submission_of(row: sqlite3.Row) -> Submission:
    """A submission out of its row."""
    values = json.loads(row["request"])
    if values["array"] is not None:
        values["array"] = expand_indices(values["array"])
    values["options"] = JobOptions(**values.get("options", {}))
    return Submission(
        request=JobRequest(**values),
        live=bool(row["live"]),
        **{
            name: row[name]
            for name in (
                "number",
                "token",
                "attempt",
                "identifier",
                "slurm_id",
                "doomed",
                "submitted",
                "seen",
                "owner",
                "lease",
                "orphaned_until",
                "interruptions",
            )
        },
    )


def ended_of(row: sqlite3.Row) -> JobEnd:
    """An end out of its row."""
    values = dict(row)
    return JobEnd(**values | {"state": JobState(values["state"])})
