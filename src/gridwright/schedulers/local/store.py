"""The store of the local scheduler, with its jobs by identifier, is one SQLite file that all processes share.

No process holds a lock on it between transactions, so each can be killed at any time.

Changes are transactions of a write-ahead log: what is committed survives the death of all processes.
Commands also wait for the disk (`synchronous=FULL`), so that a submitted job survives a power cut; the
runner does for jobs that ran for a while, and after one some short jobs may be found to have been running
that had ended.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.own_directories import state_home
from gridwright.schedulers.local.policy import MachineResources
from gridwright.state_parts import unusable_state
from gridwright.trusted import open_directory, open_file

NO_INDEX = -1
"""The index of a job that is no array."""
HIGHEST_INDEX = 4_000_000
"""The highest index of an array: as Slurm allows it at most (slurm.conf(5), MaxArraySize)."""
TOKEN = "GRIDWRIGHT_JOB_TOKEN"  # noqa: S105 - the name of a variable, and nothing secret
"""In the environment of a job and so of all that it starts; after a kill, what remains is found by it."""

_IDENTIFIER = re.compile(r"([0-9]{1,15})(?:_([0-9]{1,7}))?", re.ASCII)


class JobKey(NamedTuple):
    """A job, or one element of an array."""

    job: int
    element: int = NO_INDEX

    def __str__(self) -> str:
        return str(self.job) if self.element == NO_INDEX else f"{self.job}_{self.element}"

    @property
    def tasks(self) -> tuple[int, int, int]:
        """The tasks that are meant, for `job=? AND idx BETWEEN ? AND ?`: those of an array are all of it."""
        high = HIGHEST_INDEX if self.element == NO_INDEX else self.element
        return self.job, self.element, high


def parse_identifier(text: str) -> JobKey | Problem:
    """Read 17 or 17_3; what is wrong with it otherwise."""
    match = _IDENTIFIER.fullmatch(text.strip())
    if match is None:
        remedy = "write a number such as 17, or 17_3 for an element of an array; gridwright jobs lists them"
        return Problem(what=f"{text!r} is no job", remedy=remedy)
    return JobKey(int(match[1]), NO_INDEX if match[2] is None else int(match[2]))


def token(store: str, key: JobKey, attempt: int) -> str:
    """What the environment of one attempt of a job holds as TOKEN."""
    return f"{store}:{key.job}:{key.element}:{attempt}"


def read_token(store: str, environment: bytes) -> JobKey | None:
    """Whose process has this environment, as /proc/PID/environ gives it; None if no job's of this store."""
    start = f"{TOKEN}={store}:".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(start):
            parts = entry[len(start) :].split(b":")
            try:
                return JobKey(int(parts[0]), int(parts[1]))
            except (IndexError, ValueError):
                return None
    return None


VERSION = 2
"""Of the tables, in PRAGMA user_version."""

_TABLES = """
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value
);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL,
    command BLOB NOT NULL,
    directory BLOB NOT NULL,
    environment BLOB NOT NULL,
    libraries BLOB NOT NULL,
    cores INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    time_limit REAL,
    is_array INTEGER NOT NULL,
    is_restarted INTEGER NOT NULL,
    is_kept INTEGER NOT NULL,
    is_exclusive INTEGER NOT NULL,
    is_null INTEGER NOT NULL,
    user TEXT NOT NULL,
    submitted REAL NOT NULL,
    options TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE dependencies (
    job INTEGER NOT NULL,
    on_job INTEGER NOT NULL,
    on_idx INTEGER NOT NULL,
    type TEXT NOT NULL DEFAULT 'ok',
    PRIMARY KEY (job, on_job, on_idx)
) WITHOUT ROWID;
CREATE TABLE tasks (
    job INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    attempt INTEGER NOT NULL DEFAULT 0,
    cancel TEXT,
    exit_status INTEGER,
    signal INTEGER,
    reason TEXT,
    started REAL,
    ended REAL,
    user_s REAL,
    system_s REAL,
    peak_bytes INTEGER,
    PRIMARY KEY (job, idx)
) WITHOUT ROWID;
CREATE INDEX unfinished ON tasks (job, idx) WHERE state IN ('waiting', 'running');
CREATE TRIGGER final_states_stay BEFORE UPDATE OF state ON tasks
    WHEN OLD.state NOT IN ('waiting', 'running')
    BEGIN SELECT RAISE(ABORT, 'a final state does not change'); END;
"""
"""Names, arguments and the environment are bytes, since they need not be UTF-8. `options` is a JSON object of
what differs from the defaults.
"""

CHANGES = {
    1: """
UPDATE tasks SET state=outcome WHERE state='running' AND outcome IS NOT NULL;
ALTER TABLE jobs ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
ALTER TABLE dependencies ADD COLUMN type TEXT NOT NULL DEFAULT 'ok';
ALTER TABLE tasks ADD COLUMN user_s REAL;
ALTER TABLE tasks ADD COLUMN system_s REAL;
ALTER TABLE tasks ADD COLUMN peak_bytes INTEGER;
"""
}
"""What makes tables of a version those of the next. In version 1, `outcome` was the final state of a task
whose command had ended, and whose directories were being removed; the column stays where it is.
"""


def pack(words: Iterable[bytes]) -> bytes:
    """Words as bytes, each ended by a NUL: no argument of a program and no variable can hold one."""
    return b"".join(word + b"\0" for word in words)


def unpack(data: bytes) -> list[bytes]:
    """The words that `pack` put together."""
    return data.split(b"\0")[:-1]


def pack_mapping(values: Mapping[bytes, bytes]) -> bytes:
    """Names and values in turn; see `pack`."""
    return pack(word for item in values.items() for word in item)


def unpack_mapping(data: bytes) -> dict[bytes, bytes]:
    """The mapping that `pack_mapping` put together."""
    words = unpack(data)
    return dict(zip(words[::2], words[1::2], strict=True))


def has_nul(words: Sequence[str]) -> bool:
    """Whether a word holds a NUL, and so cannot be handed to a program."""
    return any("\0" in word for word in words)


FILE = "jobs.sqlite"
_LOGS = "logs"
CREATION_LOCK = "store.lock"
BUSY_S = 20.0
"""How long a command waits for others to finish with the store: they take milliseconds."""

_LITTLE_BYTES = 64 << 10
"""Less room than this is none: SQLite grows its files by as much."""


class Store:
    """An open store. Raises GridwrightError (status ENVIRONMENT) where the file does not do."""

    def __init__(
        self, state: Path, *, durable: bool = True, busy_s: float = BUSY_S, looks: bool = False
    ) -> None:
        """Open the store in a state directory, or make it; `durable` waits for the disk.

        Who only `looks` where none is has one in memory, in which no job is.
        """
        self.state = state
        self.logs = f"{state / _LOGS}/"
        self._durable = durable
        self._in_memory = looks and not os.path.lexists(state / FILE)
        if not self._in_memory:
            self._make_place()
        with self.translated_errors():
            self._connection = sqlite3.connect(
                ":memory:" if self._in_memory else state / FILE,
                timeout=busy_s,
                isolation_level=None,
                check_same_thread=False,
            )
            self._prepare()
            self.identity = str(self.setting("identity"))
            self.secret = str(self.setting("secret") or "")
            """What nobody else knows; empty for a store that an older release has made."""

    def _make_place(self) -> None:
        state = self.state
        otherwise = _own_instead(state)
        remedy = f"see whose it is, and move it away; or {otherwise}"
        try:
            # Jobs run what it says, and runner and launcher open their files in it by name: what is above it
            # cannot be exchanged either.
            opened = open_directory(state, make=0o700, remedy=remedy)
            try:
                os.close(open_directory(_LOGS, directory=opened, make=0o700, remedy=remedy))
                # The environments of jobs are in it: nobody else is to read them, not for a moment.
                os.close(open_file(opened, FILE, os.O_RDWR | os.O_CREAT, remedy=remedy))
            finally:
                os.close(opened)
        except OSError as error:
            raise unusable_state(error, state, remedy=otherwise) from error

    def _prepare(self) -> None:
        (version,) = self.one("PRAGMA user_version")
        if version < VERSION:
            version = self._create()
        if version != VERSION:
            raise environment_error(
                f"the jobs in it were kept by another release of Gridwright (format {version})",
                where=str(self.state / FILE),
                remedy="use that release until they have ended, or name another state directory in the spec",
            )
        self._connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")

    def _create(self) -> int:
        """Make the tables, or those of an older release anew; the version of what is there then."""
        with self._creation_lock():
            (version,) = self.one("PRAGMA user_version")
            if version == 0:
                self._connection.execute("PRAGMA journal_mode=WAL")
                with self.transaction():
                    for statement in _statements(_TABLES):
                        self._connection.execute(statement)
                    self.put_setting("identity", secrets.token_hex(6))
                    self.put_setting("secret", secrets.token_hex(16))
                    self.put_setting("cancellations", 0)
                    self._connection.execute(f"PRAGMA user_version={VERSION:d}")
                return VERSION
            while version in CHANGES:
                with self.transaction():
                    for statement in _statements(CHANGES[version]):
                        self._connection.execute(statement)
                    version += 1
                    self._connection.execute(f"PRAGMA user_version={version:d}")
            return int(version)

    @contextlib.contextmanager
    def _creation_lock(self) -> Iterator[None]:
        if self._in_memory:
            yield
            return
        lock = os.open(self.state / CREATION_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def close(self) -> None:
        """Close it; nothing is lost without."""
        self._connection.close()

    @contextlib.contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into GridwrightError."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def is_full(self, error: Exception) -> bool:
        """Whether an error means that the disk of the state directory is full."""
        if isinstance(error, OSError):
            return error.errno in (errno.ENOSPC, errno.EDQUOT)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
        # The file that processes share memory by cannot grow either: SQLite calls that an I/O error.
        with contextlib.suppress(OSError):
            there = os.statvfs(self.state)
            return there.f_bavail * there.f_frsize < _LITTLE_BYTES
        return False

    @property
    def full_disk(self) -> str:
        """What is said of a full disk."""
        return f"the state disk {self.state} is full"

    def _failure(self, error: sqlite3.Error) -> GridwrightError:
        if self.is_full(error):
            return environment_error(
                self.full_disk,
                remedy="make room there: jobs go on, and those that have ended are recorded then",
            )
        locked = "locked" in str(error)
        return environment_error(
            f"the jobs of the grid cannot be read or written: {error}",
            where=str(self.state / FILE),
            remedy="another process holds it: find it with fuser, and try again"
            if locked
            else "see that its disk has room and that the file is yours; it must not be edited",
        )

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """One transaction: all of it, or nothing. One that is `durable` waits for the disk in any case."""
        if durable and not self._durable:
            self._connection.execute("PRAGMA synchronous=FULL")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
        finally:
            if durable and not self._durable:
                self._connection.execute("PRAGMA synchronous=NORMAL")

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run one statement; how many rows it changed."""
        return self._connection.execute(statement, values).rowcount

    def change_many(self, statement: str, rows: Iterator[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        self._connection.executemany(statement, rows)

    def insert(self, statement: str, values: Sequence[Any]) -> int:
        """Insert a row; its number."""
        return int(self._connection.execute(statement, values).lastrowid or 0)

    def all(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        return self._connection.execute(statement, values).fetchall()

    def one(self, statement: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - what a column holds
        """The first row of a query, or None."""
        return self._connection.execute(statement, values).fetchone()

    def setting(self, name: str) -> Any:  # noqa: ANN401
        """A value that stays; None where there is none."""
        row = self.one("SELECT value FROM settings WHERE name=?", (name,))
        return None if row is None else row[0]

    def put_setting(self, name: str, value: str | int) -> None:
        """Keep a value."""
        self.change("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def site(self) -> MachineResources | None:
        """What jobs may use, as the last command had it."""
        text = self.setting("site")
        return None if text is None else MachineResources.from_json(text)

    def changed_by_others(self) -> int:
        """A number that changes when another process has changed something (PRAGMA data_version)."""
        (version,) = self.one("PRAGMA data_version")
        return int(version)

    def has_unfinished(self) -> bool:
        """Whether a job waits or runs."""
        query = "SELECT 1 FROM tasks WHERE state IN ('waiting', 'running') LIMIT 1"
        return self.one(query) is not None

    def log_of(self, key: JobKey) -> str:
        """The file with what a job printed."""
        return f"{self.logs}{key}.log"


def _own_instead(state: Path) -> str:
    """How to go on where a state directory cannot be used: each user has a queue of its own by default."""
    with contextlib.suppress(GridwrightError):
        if state.is_relative_to(state_home() / "gridwright"):
            return "set XDG_STATE_HOME to another directory of your own"
    return (
        "leave state: out of the grid spec: each user then has a queue of its own, below "
        "~/.local/state/gridwright; or have it name another directory that no other user can write"
    )


def _statements(script: str) -> Iterator[str]:
    """The statements of a script: `executescript` would commit in between."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
