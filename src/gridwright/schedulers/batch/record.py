"""Our own record of submitted jobs: an SQLite file, one for each user of a grid.

A submission is written here before its scheduler is asked, its number after; what became of each job is
written once and never asked again. Every process may be killed at any moment, and several may use the file
at the same time: each change is one transaction, and the process that submits a job holds it until a time.

Finds jobs in it by what users call them, and what a job waits for.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, nearest
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.job import JobOptions, JobRequest, JobState, JobTag
from gridwright.schedulers.job_request import (
    Dependency,
    DependencyType,
    expand_indices,
    fold_indices,
    parse_dependency,
)

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
class Submission:
    """A request as it stands with its scheduler. Times in seconds since 1970."""

    token: str
    attempt: int
    identifier: str | None
    """What users call it; the scheduler's number, as long as that is this job's alone."""
    number: int | None
    """The scheduler's, of this attempt; None while it is not known that it has the job."""
    request: JobRequest
    submitted: float
    seen: float
    """When the scheduler last listed it, or took it."""
    lease: float
    """Until when the process that submits it may do so; 0: nobody does."""
    live: bool
    """Whether any of its elements has not ended."""
    memory: int | None = None
    """Bytes that were asked for; not kept of jobs of Slurm, nor is anything that follows of others."""
    doomed: str | None = None
    """The job that it should have waited for and that did not complete."""
    owner: str | None = None
    """The process that submits it."""
    orphaned_until: float | None = None
    """Slurm lost it after it had begun; by then slurmd has ended it, or it has ended by itself."""
    interruptions: int = 0
    """Attempts that had begun and were lost."""

    @property
    def tag(self) -> JobTag:
        """What its name with the scheduler ends with."""
        return JobTag(self.token, self.attempt)

    @property
    def elements(self) -> tuple[int, ...]:
        """Indices of its jobs; WHOLE alone where it is no array."""
        return (WHOLE,) if self.request.array is None else tuple(self.request.array)

    def held(self, now: float) -> bool:
        """Whether a process is submitting it; one whose name is kept must live."""
        return self.lease > now and (self.owner is None or _owner_lives(self.owner))

    def name_of(self, element: int | None) -> str:
        """What users call one of its jobs, or None for all of them."""
        name = self.identifier or self.token
        return name if element in (None, WHOLE) else f"{name}_{element}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How one job has ended. Times in seconds, moments since 1970, sizes in bytes."""

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
    """Whether its private directories are known to be gone; not kept of jobs of Slurm, nor are times and
    bytes above. What follows is kept of those alone."""
    attempt: int = 0
    cpu_s: float | None = None
    """User and system time, as its own script wrote it down; below 0 where that wrote nothing."""
    recorded: float = 0.0


class SubmissionRecord:
    """A record, open. Raises GridwrightError (ENVIRONMENT) where the file cannot be used.

    The tables of a record are its own: columns that are not named here are those of Submission and JobEnd.
    """

    number_column = "number"
    """Where the scheduler's number of a submission stands."""
    folds_arrays = False
    """Whether indices of arrays are kept as ranges, in order; else as a list, in the order of the request."""

    def __init__(self, path: Path, tables: str, *, busy_s: float, settings: Sequence[str] = ()) -> None:
        """Open it, with `tables` (SQL) where it is new; `busy_s`: how long it waits for others to finish.

        `settings` are PRAGMA statements for every connection.
        """
        self._path = path
        with self._explained():
            self._base = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
            self._base.row_factory = sqlite3.Row
            for setting in settings:
                self._base.execute(setting)
            if not self._base.execute("PRAGMA user_version").fetchone()[0]:
                path.chmod(0o600)
                self._base.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = 1; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise environment_error(
                f"the record of jobs cannot be used: {error}",
                where=str(self._path),
                remedy="see that the state directory is writable, has room and knows locks (flock)",
            ) from error

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    def _read(self, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._explained():
            return self._base.execute(query, parameters).fetchall()

    def intend(self, intents: Iterable[tuple[str, JobRequest, Mapping[str, Any]]], lease: float) -> None:
        """Write down what is about to be submitted: token, request, and more columns by name."""
        now = time.time()
        with self._change() as base:
            for token, request, more in intents:
                text = request_text(request, folds_arrays=self.folds_arrays)
                values = {"token": token, "request": text, "submitted": now, "seen": now, "lease": lease}
                _insert(base, "submission", {**values, **more})

    def accepted(self, answers: Iterable[tuple[JobTag, int]]) -> dict[str, str]:
        """Write down the scheduler's numbers, by attempt; identifiers by token.

        A number that another submission is known by, since it was given twice, gets an addition.
        """
        identifiers = {}
        with self._change() as base:
            for tag, number in answers:
                row = base.execute(
                    "SELECT * FROM submission WHERE token = ? AND attempt = ?", (tag.token, tag.attempt)
                ).fetchone()
                if row is None:
                    continue
                identifier = row["identifier"] or _free_identifier(base, number)
                base.execute(
                    f"UPDATE submission SET {self.number_column} = ?, identifier = ?, lease = 0, seen = ?"  # noqa: S608
                    " WHERE token = ?",
                    (number, identifier, time.time(), tag.token),
                )
                self._note_number(base, number, self._submission(row))
                identifiers[tag.token] = identifier
        return identifiers

    def _note_number(self, base: sqlite3.Connection, number: int, submission: Submission) -> None:
        """Keep more of a number that was given, in the same transaction; by default nothing."""

    def claim(self, tag: JobTag, lease: float, *, interrupted: bool = False) -> JobTag | None:
        """Take over a submission for its next attempt; None where another process was quicker.

        `interrupted`: whether a job of the last attempt had begun.
        """
        assignments, values = self._claimed(interrupted)
        with self._change() as base:
            done = base.execute(
                f"UPDATE submission SET {assignments} {self.number_column} = NULL, attempt = attempt + 1,"  # noqa: S608
                " lease = ?, seen = ? WHERE token = ? AND attempt = ? AND live = 1",
                (*values, lease, time.time(), tag.token, tag.attempt),
            )
            return JobTag(tag.token, tag.attempt + 1) if done.rowcount == 1 else None

    def _claimed(self, interrupted: bool) -> tuple[str, Sequence[Any]]:
        """More that a claim sets: SQL that ends with a comma, and its values; by default nothing."""
        return "", ()

    def released(self, tokens: Iterable[str]) -> None:
        """Release jobs that were not submitted: the next command submits them."""
        with self._change() as base:
            base.executemany("UPDATE submission SET lease = 0 WHERE token = ?", [(each,) for each in tokens])

    def withdraw(self, tokens: Iterable[str]) -> None:
        """Forget submissions that were refused, or that their user gave up before he knew of them."""
        with self._change() as base:
            base.executemany("DELETE FROM submission WHERE token = ?", [(token,) for token in tokens])

    def saw(self, tokens: Iterable[str]) -> None:
        """Note that the scheduler listed these just now."""
        now = time.time()
        with self._change() as base:
            base.executemany(
                "UPDATE submission SET seen = ? WHERE token = ?", [(now, token) for token in tokens]
            )

    def cancel(self, elements: Iterable[tuple[str, int]]) -> None:
        """Write down that a user cancelled jobs, before the scheduler is told: it may forget."""
        with self._change() as base:
            base.executemany("INSERT OR IGNORE INTO cancelled VALUES (?, ?)", list(elements))

    def cancelled(self, token: str) -> set[int]:
        """Elements of a submission that its user cancelled."""
        rows = self._read("SELECT element FROM cancelled WHERE token = ?", (token,))
        return {row["element"] for row in rows}

    def end(self, ends: Iterable[JobEnd], *, sweep: Iterable[JobEnd] = ()) -> None:
        """Write down what became of jobs. What is written already stays: a job ends once.

        `sweep` are those whose private directories may be there still, where the table does not say it.
        """
        now = time.time()
        with self._change() as base:
            columns = {row["name"] for row in base.execute("PRAGMA table_info(ended)")}
            touched = set()
            for end in ends:
                values = {name: getattr(end, name) for name in _END if name in columns}
                _insert(base, "ended", values | ({"recorded": now} if "recorded" in columns else {}))
                touched.add(end.token)
            self._note_leftovers(base, sweep)
            for token in touched:
                self._close_submission(base, token)

    def _note_leftovers(self, base: sqlite3.Connection, ends: Iterable[JobEnd]) -> None:
        """Keep which jobs may have left directories, in the transaction of their ends; by default nothing."""

    def _close_submission(self, base: sqlite3.Connection, token: str) -> None:
        """A submission that has ended needs no query any more, and its environment no place on a disk."""
        row = base.execute("SELECT * FROM submission WHERE token = ?", (token,)).fetchone()
        if row is None:
            return
        count = base.execute("SELECT count(*) FROM ended WHERE token = ?", (token,)).fetchone()[0]
        if count >= len(self._submission(row).elements):
            text = json.dumps(json.loads(row["request"]) | {"environment": {}})
            base.execute(
                "UPDATE submission SET live = 0, lease = 0, request = ? WHERE token = ?", (text, token)
            )

    def live(self) -> list[Submission]:
        """Submissions that have jobs which have not ended, in order."""
        return self._submissions("live = 1 ORDER BY rowid")

    def all(self) -> list[Submission]:
        """All submissions, in order."""
        return self._submissions("1 ORDER BY rowid")

    def by_identifier(self, identifier: str) -> Submission | None:
        """The submission that users know by an identifier."""
        return next(iter(self._submissions("identifier = ?", identifier)), None)

    def by_token(self, token: str) -> Submission | None:
        """The submission of a token."""
        return next(iter(self._submissions("token = ?", token)), None)

    def _submissions(self, which: str, *values: str) -> list[Submission]:
        rows = self._read(f"SELECT * FROM submission WHERE {which}", values)  # noqa: S608 - words of ours
        return [self._submission(row) for row in rows]

    def _submission(self, row: sqlite3.Row) -> Submission:
        values = dict(row) | {"number": row[self.number_column], "live": bool(row["live"])}
        values["request"] = request_of(row["request"])
        if "owner" in values and values["owner"] is None:
            # Where owners are kept, earlier releases let a submission go by that alone.
            values["lease"] = 0.0
        return Submission(**{name: value for name, value in values.items() if name in _SUBMISSION})

    def ended(self, token: str) -> dict[int, JobEnd]:
        """What became of the jobs of a submission, by element."""
        rows = self._read("SELECT * FROM ended WHERE token = ?", (token,))
        return {row["element"]: ended_of(row) for row in rows}

    def cpu_s(self, end: JobEnd) -> float | None:
        """User and system time of a job that has ended, in seconds; None where it is not known."""
        return end.user_s + end.system_s if end.started is not None else None

    def identifiers(self) -> list[str]:
        """All identifiers that users may know."""
        rows = self._read("SELECT identifier FROM submission WHERE identifier IS NOT NULL")
        return [row["identifier"] for row in rows]

    def fact(self, name: str, age_s: float) -> str | None:
        """What was kept under a name; None where it is older than `age_s` seconds."""
        rows = self._read("SELECT text, read FROM fact WHERE name = ?", (name,))
        return rows[0]["text"] if rows and 0 <= time.time() - rows[0]["read"] <= age_s else None

    def keep_fact(self, name: str, text: str) -> None:
        """Keep something that was read, with the time, to be read less often."""
        with self._change() as base:
            base.execute("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", (name, text, time.time()))


class BatchRecord(SubmissionRecord):
    """The record of jobs of a batch system whose nodes tell how they ended."""

    def __init__(self, path: Path) -> None:
        # A file that several hosts may lock has no shared memory beside it.
        settings = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = FULL")
        super().__init__(path, _SCHEMA, busy_s=30.0, settings=settings)

    def swept(self, ends: Iterable[JobEnd]) -> None:
        """Note that the private directories of jobs are gone."""
        with self._change() as base:
            base.executemany(
                "UPDATE ended SET swept = 1 WHERE token = ? AND element = ?",
                [(end.token, end.element) for end in ends],
            )

    def leftovers(self) -> list[JobEnd]:
        """Jobs whose private directories may be there still."""
        return [ended_of(row) for row in self._read("SELECT * FROM ended WHERE swept = 0")]


_REQUEST = {field.name for field in fields(JobRequest)}
_SUBMISSION = {field.name for field in fields(Submission)}
_END = [field.name for field in fields(JobEnd)]


def _insert(base: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> None:
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    clause = " OR IGNORE" if table == "ended" else ""
    base.execute(f"INSERT{clause} INTO {table} ({names}) VALUES ({places})", values)


def _free_identifier(base: sqlite3.Connection, number: int) -> str:
    """The scheduler's number, with an addition where another submission is known by it."""
    taken = base.execute(
        "SELECT count(*) FROM submission WHERE identifier = ? OR identifier GLOB ?",
        (str(number), f"{number}-*"),
    ).fetchone()[0]
    return str(number) if taken == 0 else f"{number}-{taken + 1}"


def request_text(request: JobRequest, *, folds_arrays: bool) -> str:
    """A request as JSON; bytes that are no UTF-8 are escaped, as lone surrogates."""
    values = {name: getattr(request, name) for name in _REQUEST}
    if folds_arrays and request.array is not None:
        values["array"] = fold_indices(request.array)
    return json.dumps(values, default=_plain)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever a field of a request holds
    if isinstance(value, JobOptions):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else list(value)


def request_of(text: str) -> JobRequest:
    """A request out of its JSON, also where another release wrote more into it."""
    values = json.loads(text)
    if isinstance(values["array"], str):
        values["array"] = expand_indices(values["array"])
    values["options"] = JobOptions(**values.get("options", {}))
    return JobRequest(**{name: value for name, value in values.items() if name in _REQUEST})


def ended_of(row: sqlite3.Row) -> JobEnd:
    """An end out of its row."""
    values = dict(row)
    values["swept"] = bool(values.get("swept", True))
    return JobEnd(**values | {"state": JobState(values["state"])})


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


BY_TOKEN = "@"  # noqa: S105 - a mark, no password
"""What a dependency begins with on a job of the same call, which has no identifier yet: its token follows."""
_IDENTIFIER = re.compile(r"([0-9]+(?:-[0-9]+)?)(?:_([0-9]+))?")


def split_identifier(text: str) -> tuple[str, int | None] | None:
    """The submission and the index in an identifier such as 17 or 17_3; None for any other text."""
    match = _IDENTIFIER.fullmatch(text)
    if match is None:
        return None
    return match[1], None if match[2] is None else int(match[2])


def elements_named(
    record: SubmissionRecord, identifiers: Collection[str], others: str
) -> list[tuple[Submission, int]]:
    """The jobs of identifiers, in order, each once; `others`: see `unknown_job`.

    Raises GridwrightError (INPUT) with every unknown one.
    """
    found: list[tuple[Submission, int]] = []
    problems: list[Problem] = []
    for identifier in identifiers:
        submission, element = look_up(record, identifier)
        if submission is None:
            problems.append(unknown_job(record, identifier, others))
        elif element is None:
            found += [(submission, each) for each in submission.elements]
        elif element in submission.elements:
            found.append((submission, element))
        else:
            what = f"job {submission.identifier} has no element {element}"
            problems.append(Problem(what=what, remedy=f"see gridwright jobs {submission.identifier}"))
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    unique = {(submission.token, index): (submission, index) for submission, index in found}
    return list(unique.values())


def unknown_job(record: SubmissionRecord, identifier: str, others: str) -> Problem:
    """That there is no such job, with the nearest that there is; `others` are those that no record has."""
    near = nearest(identifier, record.identifiers())
    remedy = f"did you mean {near}?" if near else f"gridwright jobs shows all; {others} are not in it"
    return Problem(what=f"there is no job {identifier}", remedy=remedy)


def doom_sentence(job: str, *, unneeded: bool = False) -> str:
    """Why a job was cancelled that waited for another one in vain; `unneeded`: that should have failed."""
    if unneeded:
        return f"job {job}, after whose failure it was to start, completed"
    return f"job {job}, which it waited for, did not complete"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The jobs that one job waits for."""

    submission: Submission
    elements: tuple[int, ...]
    type: DependencyType

    @property
    def identifier(self) -> str:
        """What users call it."""
        return self.submission.name_of(self.elements[0] if len(self.elements) == 1 else None)


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """What a request waits for."""

    on: tuple[Predecessors, ...] = ()
    """Those that have not ended as they should, or not yet."""
    unknown: tuple[str, ...] = ()


def waited_for(record: SubmissionRecord, request: JobRequest) -> WaitedFor:
    """Look up what a request waits for; jobs that ended as they should are left out."""
    on: list[Predecessors] = []
    unknown: list[str] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            continue
        submission, index = look_up(record, found.job)
        if submission is None or (index is not None and index not in submission.elements):
            unknown.append(found.job)
            continue
        elements = submission.elements if index is None else (index,)
        ended = record.ended(submission.token)
        if not _settled(
            found.type, [ended[element].state for element in elements if element in ended], len(elements)
        ):
            on.append(Predecessors(submission, elements, found.type))
    return WaitedFor(tuple(on), tuple(unknown))


def _settled(type_: DependencyType, states: Sequence[JobState], count: int) -> bool:
    if len(states) < count:
        return False
    completed = all(state is JobState.COMPLETED for state in states)
    return type_ is DependencyType.ANY or completed != (type_ is DependencyType.NOT_OK)


def look_up(record: SubmissionRecord, name: str) -> tuple[Submission | None, int | None]:
    """The submission of a name, and the index where it names an element.

    It is an identifier, or `@TOKEN` where it was submitted together with the one that waits.
    """
    if name.startswith(BY_TOKEN):
        return record.by_token(name.removeprefix(BY_TOKEN)), None
    parts = split_identifier(name)
    return (record.by_identifier(parts[0]), parts[1]) if parts else (None, None)


def by_tokens(request: JobRequest, tokens: Sequence[str]) -> tuple[JobRequest, list[Problem]]:
    """The request with the tokens of earlier requests of its call in place of their numbers.

    `tokens` are those of the requests before it. What cannot be read is left out: `option_problems` has it.
    """
    after: list[str] = []
    problems: list[Problem] = []
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            continue
        number = found.earlier
        if number is None:
            after.append(str(found))
        elif number < len(tokens):
            after.append(str(Dependency(f"{BY_TOKEN}{tokens[number]}", found.type)))
        else:
            problems.append(found.not_earlier)
    return replace(request, after=after), problems


def states_of(record: SubmissionRecord, request: JobRequest) -> list[tuple[str, JobState | None, bool]]:
    """The jobs that a request waits for: name, state (None: not all have ended), and whether that is met."""
    found = []
    open_ = {(each.submission.token, each.type) for each in waited_for(record, request).on}
    for text in request.after:
        parsed = parse_dependency(text)
        submission, index = (None, None) if isinstance(parsed, Problem) else look_up(record, parsed.job)
        if submission is None or isinstance(parsed, Problem):
            continue
        ended = record.ended(submission.token)
        elements = submission.elements if index is None else (index,)
        states = [ended[element].state for element in elements if element in ended]
        bad = [each for each in states if each is not JobState.COMPLETED]
        state = None if len(states) < len(elements) else bad[0] if bad else JobState.COMPLETED
        name = Predecessors(submission, elements, parsed.type).identifier
        met = (submission.token, parsed.type) not in open_
        found.append((str(Dependency(name, parsed.type)), state, met))
    return found
