"""The record of jobs submitted to Slurm: what Slurm's losses need beyond that of other batch systems."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gridwright.schedulers.batch.record import (
    JobEnd,
    Submission,
    SubmissionRecord,
    ended_of,
    this_process,
)
from gridwright.schedulers.job import JobRequest

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


class JobRecord(SubmissionRecord):
    """The record, open. Raises GridwrightError (ENVIRONMENT) where the file cannot be used."""

    number_column = "slurm_id"
    folds_arrays = True

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

    def intend(self, intents: Iterable[tuple[str, JobRequest, Mapping[str, Any]]], lease: float) -> None:
        """Write down what is about to be submitted, and that this process does it; see SubmissionRecord."""
        owner = {"owner": this_process()}
        super().intend([(token, request, {**more, **owner}) for token, request, more in intents], lease)

    def _claimed(self, interrupted: bool) -> tuple[str, Sequence[Any]]:
        assignments = "orphaned_until = NULL, interruptions = interruptions + ?, owner = ?,"
        return assignments, (int(interrupted), this_process())

    def _note_number(self, base: sqlite3.Connection, number: int, submission: Submission) -> None:
        now = time.time()
        base.execute("DELETE FROM number WHERE given < ?", (now - _NUMBERS_S,))
        elements = len(submission.request.array or ())
        base.execute("INSERT INTO number VALUES (?, ?, ?)", (number, elements, now))

    def _note_leftovers(self, base: sqlite3.Connection, ends: Iterable[JobEnd]) -> None:
        base.executemany(
            "INSERT OR IGNORE INTO leftover (token, element, node) VALUES (?, ?, ?)",
            [(each.token, each.element, each.node) for each in ends],
        )

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

    def cpu_s(self, end: JobEnd) -> float | None:
        """User and system time as the job's own script wrote it down; see SubmissionRecord."""
        return end.cpu_s if end.cpu_s is not None and end.cpu_s >= 0 else None

    def leftovers(self) -> list[tuple[str, int, str | None]]:
        """Jobs whose private directories may be there still: token, element, node."""
        return [tuple(row) for row in self._read("SELECT token, element, node FROM leftover")]

    def swept(self, elements: Iterable[tuple[str, int]]) -> None:
        """Their private directories are gone."""
        with self._change() as base:
            base.executemany("DELETE FROM leftover WHERE token = ? AND element = ?", list(elements))
