"""The tables of the store, and the values that they hold as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

VERSION = 2
"""Of the tables, in PRAGMA user_version."""

TABLES = """
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
