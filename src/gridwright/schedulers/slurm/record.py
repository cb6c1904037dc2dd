"""Our own record of jobs submitted to Slurm: an SQLite file, one for each user of a grid.

A submission is written here before sbatch is called, its identifier after; what became of each job is written
once and never asked again. Every process of Gridwright may be killed at any moment, and several may use the
file at the same time: each change is one transaction, and the process that submits a job holds it by name
until a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.record_file import RecordFile, free_identifier
from gridwright.schedulers.slurm.record_rows import (
    JobEnd,
    Submission,
    ended_of,
    request_text,
    submission_of,
    this_process,
)

_VERSION = 2
"""Of the tables, in PRAGMA user_version."""
_NUMBERS_S = 86_400.0
"""How long Slurm's numbers are kept."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS submission (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE,
    attempt INTEGER NOT NULL DEFAULT 0,
    identifier TEXT UNIQUE,
    slurm_id INTEGER,
    request TEXT NOT NULL,
    doomed TEXT,
    submitted REAL NOT NULL,
    seen REAL NOT NULL,
    owner TEXT,
    lease REAL NOT NULL DEFAULT 0,
    orphaned_until REAL,
    interruptions INTEGER NOT NULL DEFAULT 0,
    live INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS live_submission ON submission (live) WHERE live = 1;
CREATE TABLE IF NOT EXISTS ended (
    token TEXT NOT NULL,
    element INTEGER NOT NULL,
    state TEXT NOT NULL,
    exit_status INTEGER,
    signal INTEGER,
    reason TEXT,
    node TEXT,
    queue TEXT,
    started REAL,
    ended REAL,
    restarts INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    recorded REAL NOT NULL,
    PRIMARY KEY (token, element)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cancelled (
    token TEXT NOT NULL,
    element INTEGER NOT NULL,
    PRIMARY KEY (token, element)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leftover (
    token TEXT NOT NULL,
    element INTEGER NOT NULL,
    node TEXT,
    PRIMARY KEY (token, element)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS number (slurm_id INTEGER NOT NULL, elements INTEGER NOT NULL, given REAL NOT NULL);
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, text TEXT NOT NULL, read REAL NOT NULL);
"""


class JobRecord(RecordFile):
    """The record, open. Raises GridwrightError (ENVIRONMENT) where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, busy_s=20.0)
        if self._read("PRAGMA user_version")[0][0] < _VERSION:
            self._add_columns()

    def _add_columns(self) -> None:
        """Add what this release keeps and an earlier one did not."""
        with self._change() as base:
            columns = {row["name"] for row in base.execute("PRAGMA table_info(ended)")}
            if "cpu_s" not in columns:
                base.execute("ALTER TABLE ended ADD COLUMN cpu_s REAL")
                base.execute("UPDATE ended SET cpu_s = -1")
            base.execute(
                "CREATE INDEX IF NOT EXISTS without_cpu ON ended (recorded)"
                " WHERE cpu_s IS NULL AND started IS NOT NULL"
            )
            base.execute(f"PRAGMA user_version = {_VERSION:d}")

    def intend(self, intents: Iterable[tuple[str, JobRequest, str | None]], lease: float) -> None:
        """Write down what is about to be submitted: token, request, and the dependency that dooms it."""
        now = time.time()
        with self._change() as base:
            base.executemany(
                "INSERT INTO submission (token, request, doomed, submitted, seen, owner, lease)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (token, request_text(request), doomed, now, now, this_process(), lease)
                    for token, request, doomed in intents
                ],
            )

    def accepted(self, answers: Iterable[tuple[JobTag, int]]) -> dict[str, str]:
        """Write down Slurm's numbers, by attempt; identifiers by token.

        A number that another submission is known by, since Slurm has used it twice, gets an addition.
        """
        identifiers = {}
        with self._change() as base:
            base.execute("DELETE FROM number WHERE given < ?", (time.time() - _NUMBERS_S,))
            for tag, slurm_id in answers:
                row = base.execute(
                    "SELECT * FROM submission WHERE token = ? AND attempt = ?",
                    (tag.token, tag.attempt),
                ).fetchone()
                if row is None:
                    continue
                identifier = row["identifier"] or free_identifier(base, slurm_id)
                base.execute(
                    "UPDATE submission SET slurm_id = ?, identifier = ?, owner = NULL, seen = ?"
                    " WHERE token = ?",
                    (slurm_id, identifier, time.time(), tag.token),
                )
                identifiers[tag.token] = identifier
                array = submission_of(row).request.array
                base.execute("INSERT INTO number VALUES (?, ?, ?)", (slurm_id, len(array or ()), time.time()))
        return identifiers

    def orphaned(self, token: str, until: float) -> None:
        """Slurm lost a submission of which a job had begun."""
        with self._change() as base:
            base.execute("UPDATE submission SET orphaned_until = ? WHERE token = ?", (until, token))

    def numbers(self, age_s: float, *, at_least: int) -> tuple[int, int]:
        """Of Slurm's numbers from `at_least` on, given within `age_s` seconds: the highest, and the elements.

        0 for none; elements are those of arrays.
        """
        (row,) = self._read(
            "SELECT coalesce(max(slurm_id), 0) AS highest, coalesce(sum(elements), 0) AS elements FROM number"
            " WHERE given > ? AND slurm_id >= ?",
            (time.time() - age_s, at_least),
        )
        return row["highest"], row["elements"]

    def claim(self, tag: JobTag, lease: float, *, interrupted: bool = False) -> JobTag | None:
        """Take over a submission for its next attempt; None where another process was quicker."""
        with self._change() as base:
            done = base.execute(
                "UPDATE submission SET attempt = attempt + 1, slurm_id = NULL, orphaned_until = NULL,"
                " interruptions = interruptions + ?, owner = ?, lease = ?, seen = ?"
                " WHERE token = ? AND attempt = ? AND live = 1",
                (int(interrupted), this_process(), lease, time.time(), tag.token, tag.attempt),
            )
            return JobTag(tag.token, tag.attempt + 1) if done.rowcount == 1 else None

    def released(self, tokens: Iterable[str]) -> None:
        """Release jobs that were not submitted: the next command submits them."""
        with self._change() as base:
            base.executemany("UPDATE submission SET owner = NULL WHERE token = ?", [(t,) for t in tokens])

    def end(self, ends: Iterable[JobEnd], *, sweep: Iterable[JobEnd] = ()) -> None:
        """Write down what became of jobs. What is written already stays: a job ends once."""
        now = time.time()
        names = [field.name for field in fields(JobEnd)]
        with self._change() as base:
            touched = set()
            for end in ends:
                values = {name: getattr(end, name) for name in names} | {"recorded": now}
                base.execute(
                    f"INSERT OR IGNORE INTO ended ({', '.join(names)})"  # noqa: S608
                    f" VALUES ({', '.join(f':{name}' for name in names)})",
                    values,
                )
                touched.add(end.token)
            base.executemany(
                "INSERT OR IGNORE INTO leftover (token, element, node) VALUES (?, ?, ?)",
                [(each.token, each.element, each.node) for each in sweep],
            )
            for token in touched:
                _close(base, token)

    def live(self) -> list[Submission]:
        """Submissions that have jobs which have not ended, in order."""
        return [
            submission_of(row)
            for row in self._read("SELECT * FROM submission WHERE live = 1 ORDER BY number")
        ]

    def all(self) -> list[Submission]:
        """All submissions, in order."""
        return [submission_of(row) for row in self._read("SELECT * FROM submission ORDER BY number")]

    def by_identifier(self, identifier: str) -> Submission | None:
        """The submission that users know by an identifier."""
        rows = self._read("SELECT * FROM submission WHERE identifier = ?", (identifier,))
        return submission_of(rows[0]) if rows else None

    def by_token(self, token: str) -> Submission | None:
        """The submission of a token."""
        rows = self._read("SELECT * FROM submission WHERE token = ?", (token,))
        return submission_of(rows[0]) if rows else None

    def ended(self, token: str) -> dict[int, JobEnd]:
        """What became of the jobs of a submission, by element."""
        found = self._read("SELECT * FROM ended WHERE token = ?", (token,))
        return {row["element"]: ended_of(row) for row in found}

    def without_cpu_time(self) -> list[tuple[Submission, JobEnd]]:
        """Jobs that have run and ended within a day, and whose processor time was not looked for yet."""
        rows = self._read(
            "SELECT * FROM ended WHERE cpu_s IS NULL AND started IS NOT NULL AND recorded > ?",
            (time.time() - _NUMBERS_S,),
        )
        submissions = {token: self.by_token(token) for token in {row["token"] for row in rows}}
        return [
            (submission, ended_of(row))
            for row in rows
            if (submission := submissions[row["token"]]) is not None
        ]

    def keep_cpu_times(self, times: Iterable[tuple[float, str, int]]) -> None:
        """Write down processor times in seconds, by token and element."""
        with self._change() as base:
            base.executemany("UPDATE ended SET cpu_s = ? WHERE token = ? AND element = ?", list(times))

    def leftovers(self) -> list[tuple[str, int, str | None]]:
        """Jobs whose private directories may be there still: token, element, node."""
        return [tuple(row) for row in self._read("SELECT token, element, node FROM leftover")]

    def swept(self, elements: Iterable[tuple[str, int]]) -> None:
        """Their private directories are gone."""
        with self._change() as base:
            base.executemany("DELETE FROM leftover WHERE token = ? AND element = ?", list(elements))


def _close(base: sqlite3.Connection, token: str) -> None:
    """A submission that has ended needs no query any more, and its environment need not stay on a disk."""
    row = base.execute("SELECT * FROM submission WHERE token = ?", (token,)).fetchone()
    if row is None:
        return
    count = base.execute("SELECT count(*) FROM ended WHERE token = ?", (token,)).fetchone()[0]
    if count >= len(submission_of(row).elements):
        text = json.dumps(json.loads(row["request"]) | {"environment": {}})
        base.execute(
            "UPDATE submission SET live = 0, owner = NULL, request = ? WHERE token = ?", (text, token)
        )
