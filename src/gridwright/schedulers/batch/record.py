"""Our own record of jobs submitted to a batch system: an SQLite file, one for each user of a grid.

A submission is written here before the batch system is asked, its number after; what became of each job is
written once and never asked again. Every process may be killed at any moment, and several may use the file
at the same time: each change is one transaction, and the process that submits a job holds it until a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.job_options import JobOptions
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.record_file import RecordFile, free_identifier

_SCHEMA = """
CREATE TABLE IF NOT EXISTS submission (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE,
    attempt INTEGER NOT NULL DEFAULT 0,
    identifier TEXT UNIQUE, number INTEGER, request TEXT NOT NULL, submitted REAL NOT NULL,
    seen REAL NOT NULL, lease REAL NOT NULL DEFAULT 0, memory INTEGER, live INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS live_submission ON submission (live) WHERE live = 1;
CREATE TABLE IF NOT EXISTS ended (
    token TEXT NOT NULL, element INTEGER NOT NULL, state TEXT NOT NULL, exit_status INTEGER, signal INTEGER,
    reason TEXT, node TEXT, queue TEXT, started REAL, ended REAL, restarts INTEGER NOT NULL,
    user_s REAL NOT NULL, system_s REAL NOT NULL, most_bytes INTEGER NOT NULL, swept INTEGER NOT NULL,
    PRIMARY KEY (token, element)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cancelled (
    token TEXT NOT NULL, element INTEGER NOT NULL, PRIMARY KEY (token, element)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, text TEXT NOT NULL, read REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSubmission:
    """A request as it stands with the batch system."""

    token: str
    attempt: int
    identifier: str | None
    """What users call it; the batch system's number, as long as that is this job's alone."""
    number: int | None
    """The batch system's; None while it is not known that it has the job."""
    request: JobRequest
    submitted: float
    seen: float
    """When the batch system last listed it, or took it; seconds since 1970."""
    lease: float
    """Until when the process that submits it may do so; 0: nobody does."""
    memory: int | None
    """Bytes that were asked for."""
    live: bool
    """Whether any of its elements has not ended."""

    @property
    def tag(self) -> JobTag:
        """What its name in the batch system ends with."""
        return JobTag(self.token, self.attempt)

    @property
    def elements(self) -> tuple[int, ...]:
        """Indices of its jobs; WHOLE alone where it is no array."""
        return (WHOLE,) if self.request.array is None else tuple(self.request.array)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobEnd:
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
    user_s: float = 0.0
    system_s: float = 0.0
    most_bytes: int = 0
    swept: bool = True
    """Whether its private directories are known to be gone."""


class BatchRecord(RecordFile):
    """The record, open. Raises GridwrightError (ENVIRONMENT) where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        # A file that several hosts may lock has no shared memory beside it.
        settings = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = FULL")
        super().__init__(path, _SCHEMA, busy_s=30.0, settings=settings)

    def intend(self, intents: Iterable[tuple[str, JobRequest, int | None]], lease: float) -> None:
        """Write down what is about to be submitted: token, request, and its memory in bytes."""
        now = time.time()
        with self._change() as base:
            base.executemany(
                "INSERT INTO submission (token, request, memory, submitted, seen, lease)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [(token, _text(request), memory, now, now, lease) for token, request, memory in intents],
            )

    def accepted(self, answers: Iterable[tuple[JobTag, int]]) -> dict[str, str]:
        """Write down the batch system's numbers, by attempt; identifiers by token."""
        identifiers = {}
        with self._change() as base:
            for tag, number in answers:
                row = base.execute(
                    "SELECT identifier FROM submission WHERE token = ? AND attempt = ?",
                    (tag.token, tag.attempt),
                ).fetchone()
                if row is None:
                    continue
                identifier = row["identifier"] or free_identifier(base, number)
                base.execute(
                    "UPDATE submission SET number = ?, identifier = ?, lease = 0, seen = ? WHERE token = ?",
                    (number, identifier, time.time(), tag.token),
                )
                identifiers[tag.token] = identifier
        return identifiers

    def claim(self, tag: JobTag, lease: float) -> JobTag | None:
        """Take over a submission for its next attempt; None where another process was quicker."""
        with self._change() as base:
            done = base.execute(
                "UPDATE submission SET attempt = attempt + 1, number = NULL, lease = ?, seen = ?"
                " WHERE token = ? AND attempt = ? AND live = 1",
                (lease, time.time(), tag.token, tag.attempt),
            )
            return JobTag(tag.token, tag.attempt + 1) if done.rowcount == 1 else None

    def released(self, tokens: Iterable[str]) -> None:
        """Let the next command submit what was not."""
        with self._change() as base:
            base.executemany(
                "UPDATE submission SET lease = 0 WHERE token = ?", [(token,) for token in tokens]
            )

    def end(self, ends: Iterable[BatchJobEnd]) -> None:
        """Write down what became of jobs. What is written already stays: a job ends once."""
        names = [field.name for field in fields(BatchJobEnd)]
        with self._change() as base:
            touched = set()
            for end in ends:
                base.execute(
                    f"INSERT OR IGNORE INTO ended ({', '.join(names)})"  # noqa: S608
                    f" VALUES ({', '.join(f':{name}' for name in names)})",
                    {name: getattr(end, name) for name in names},
                )
                touched.add(end.token)
            for token in touched:
                _close(base, token)

    def swept(self, ends: Iterable[BatchJobEnd]) -> None:
        """Note that the private directories of jobs are gone."""
        with self._change() as base:
            base.executemany(
                "UPDATE ended SET swept = 1 WHERE token = ? AND element = ?",
                [(end.token, end.element) for end in ends],
            )

    def leftovers(self) -> list[BatchJobEnd]:
        """Jobs whose private directories may be there still."""
        return [_end(row) for row in self._read("SELECT * FROM ended WHERE swept = 0")]

    def live(self) -> list[BatchSubmission]:
        """Submissions that have jobs which have not ended, in order."""
        return [
            _submission(row)
            for row in self._read("SELECT * FROM submission WHERE live = 1 ORDER BY sequence")
        ]

    def all(self) -> list[BatchSubmission]:
        """All submissions, in order."""
        return [_submission(row) for row in self._read("SELECT * FROM submission ORDER BY sequence")]

    def by_identifier(self, identifier: str) -> BatchSubmission | None:
        """The submission that users know by an identifier."""
        rows = self._read("SELECT * FROM submission WHERE identifier = ?", (identifier,))
        return _submission(rows[0]) if rows else None

    def by_token(self, token: str) -> BatchSubmission | None:
        """The submission of a token."""
        rows = self._read("SELECT * FROM submission WHERE token = ?", (token,))
        return _submission(rows[0]) if rows else None

    def ended(self, token: str) -> dict[int, BatchJobEnd]:
        """What became of the jobs of a submission, by element."""
        return {
            row["element"]: _end(row) for row in self._read("SELECT * FROM ended WHERE token = ?", (token,))
        }


def _close(base: sqlite3.Connection, token: str) -> None:
    """A submission that has ended needs no query any more, and its environment need not stay on a disk."""
    row = base.execute("SELECT * FROM submission WHERE token = ?", (token,)).fetchone()
    if row is None:
        return
    count = base.execute("SELECT count(*) FROM ended WHERE token = ?", (token,)).fetchone()[0]
    if count >= len(_submission(row).elements):
        text = json.dumps(json.loads(row["request"]) | {"environment": {}})
        base.execute("UPDATE submission SET live = 0, lease = 0, request = ? WHERE token = ?", (text, token))


def _text(request: JobRequest) -> str:
    """A request as JSON; bytes that are no UTF-8 are escaped, as lone surrogates."""
    values = {field.name: getattr(request, field.name) for field in fields(JobRequest)}
    return json.dumps(values, default=_plain)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever a field of a request holds
    if isinstance(value, JobOptions):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else list(value)


def _submission(row: sqlite3.Row) -> BatchSubmission:
    values = json.loads(row["request"])
    names = {field.name for field in fields(JobRequest)}
    values["options"] = JobOptions(**values.get("options", {}))
    request = JobRequest(**{name: value for name, value in values.items() if name in names})
    given = {field.name: row[field.name] for field in fields(BatchSubmission) if field.name in row.keys()}  # noqa: SIM118
    return BatchSubmission(**given | {"request": request, "live": bool(row["live"])})


def _end(row: sqlite3.Row) -> BatchJobEnd:
    values = dict(row)
    return BatchJobEnd(**values | {"state": JobState(values["state"]), "swept": bool(values["swept"])})
