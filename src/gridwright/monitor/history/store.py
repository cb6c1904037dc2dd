"""The file of one node's history: an SQLite database of packed pieces, a ring for each level.

A second is one transaction, so a process that is killed loses no more than the second it was at; and one that
reads sees whole transactions while another one writes. A level says how finely the past is kept: steps of one
width, and blocks of many steps.

All series of one metric are one piece: what is asked for is read alone, and alike figures are packed better.
Values are float32. Those of counters keep 12 bits of their mantissa: an error of at most 1 part in 4096 each
time, which the means of four levels after one another make 1 in 1000.

How other users read a history: without a lock, since whoever may lock a file can hold up who writes it.

A read lock takes a file that is open for reading, no more (fcntl(2), flock(2)). One on the shared memory of
an SQLite database in WAL mode keeps its log from being emptied, or the writer from writing. So the writer of
a history that others read asks for no lock and has no shared memory.

What it commits goes into the log, which it moves into the database every few seconds. Seconds that are in the
log alone are in a second file, too, NAME-recent. Before a move it makes the number in NAME-generation odd,
and even again behind it. A reader looks at the database and at the recent seconds; where the number has
changed meanwhile, it reads again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import stat
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gridwright.monitor.readings import Key

Labels = tuple[str, ...]
UNKNOWN = math.nan
_HEAD = struct.Struct("<BBHII")
"""Format, flags, steps, series, bytes of the labels."""
_FORMAT = 1
_ROUNDED, _HIGHS, _GAPS = 1, 2, 4
_HALF, _MASK = 0x800, 0xFFFFF000
"""Rounds to the nearest value of 12 bits of mantissa, the implicit one included."""
_LARGEST = 0x7F7FF000
"""A finite float32 that may still be rounded."""
_PACKING = 6


class SpoiltPiece(ValueError):
    """Bytes that are no figures: a disk gave back something else than what was written."""


@dataclass(slots=True)
class BlockColumn:
    """One series over the steps of a block."""

    mean: array[float]
    """Over the time that is known; NaN where nothing is."""
    high: array[float]
    """The highest of the samples; the very same array as `mean` at the finest level."""
    covered: array[int] | None
    """Seconds that are known of each step; None where each is known in whole, or not at all."""


def encode(columns: Mapping[Labels, BlockColumn], steps: int, *, rounded: bool) -> bytes:
    """The series of one metric as bytes."""
    names = json.dumps(list(columns), separators=(",", ":")).encode()
    highs = any(column.high is not column.mean for column in columns.values())
    gaps = any(column.covered is not None for column in columns.values())
    flags = _ROUNDED * rounded | _HIGHS * highs | _GAPS * gaps
    parts = [names, _planes([column.mean for column in columns.values()], rounded=rounded)]
    if highs:
        parts.append(_planes([column.high for column in columns.values()], rounded=rounded))
    if gaps:
        covered = [column.covered for column in columns.values()]
        parts.append(_bytes_of(array("H", (n for each in covered for n in each or [_WHOLE] * steps))))
    head = _HEAD.pack(_FORMAT, flags, steps, len(columns), len(names))
    return head + zlib.compress(b"".join(parts), _PACKING)


_WHOLE = 0xFFFF
"""Written for a series that is covered in whole, beside others that are not."""


def decode(data: bytes) -> dict[Labels, BlockColumn]:
    """The series that `encode` was given. Raises SpoiltPiece."""
    try:
        form, flags, steps, series, length = _HEAD.unpack_from(data)
        if form != _FORMAT:
            raise SpoiltPiece(f"format {form} is not known")
        body = zlib.decompress(memoryview(data)[_HEAD.size :])
        names = [tuple(load) for load in json.loads(body[:length])]
        size = steps * series
        width = 3 if flags & _ROUNDED else 4
        mean = _unplaned(body[length : length + size * width], size, width)
        end = length + size * width
        high = mean
        if flags & _HIGHS:
            high = _unplaned(body[end : end + size * width], size, width)
            end += size * width
        covered = _numbers("H", body[end : end + 2 * size]) if flags & _GAPS else None
        whole = len(names) == series and (covered is None or len(covered) == size)
    except (struct.error, zlib.error, ValueError, TypeError, RecursionError) as error:
        raise SpoiltPiece(str(error)) from error
    if not whole:
        raise SpoiltPiece("it is too short")
    return {name: _column(mean, high, covered, number * steps, steps) for number, name in enumerate(names)}


def _column(
    mean: array[float], high: array[float], covered: array[int] | None, start: int, steps: int
) -> BlockColumn:
    part = slice(start, start + steps)
    own = mean[part]
    seconds = None if covered is None or covered[start] == _WHOLE else covered[part]
    return BlockColumn(own, own if high is mean else high[part], seconds)


def _planes(values: Sequence[array[float]], *, rounded: bool) -> bytes:
    """Bytes by their weight, the heaviest first: those are alike, and packed to almost nothing."""
    together = array("f")
    for value in values:
        together.extend(value)
    data = _bytes_of(_rounded(together) if rounded else together)
    return b"".join(data[weight::4] for weight in ((3, 2, 1) if rounded else (3, 2, 1, 0)))


def _rounded(values: array[float]) -> array[int]:
    bits = array("I", values.tobytes())
    return array("I", [(n + _HALF) & _MASK if n & 0x7FFFFFFF < _LARGEST else n & _MASK for n in bits])


def _unplaned(data: bytes, size: int, width: int) -> array[float]:
    if len(data) != size * width:
        raise SpoiltPiece("it is too short")
    found = bytearray(4 * size)
    for plane in range(width):
        found[3 - plane :: 4] = data[plane * size : (plane + 1) * size]
    return _numbers("f", bytes(found))


def _bytes_of(values: array[float] | array[int]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _numbers(kind: str, data: bytes) -> array:  # type: ignore[type-arg]
    found = array(kind, data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """Steps of one width. A block of it begins at a multiple of its length, in seconds since 1970."""

    step_s: int
    steps: int
    """Of a whole block."""
    kept_s: int
    """Seconds that were recorded and are kept: a clock that was set drops nothing."""

    @property
    def block_s(self) -> int:
        """Seconds of a whole block."""
        return self.step_s * self.steps


LEVELS = (
    HistoryLevel(1, 60, 3600),
    HistoryLevel(10, 60, 2 * 86400),
    HistoryLevel(60, 120, 30 * 86400),
    HistoryLevel(600, 144, 365 * 86400),
)
"""The finest first. A block of one level is made of whole blocks of the one before."""
FINEST = 0


NUMBER, RECENT = "-generation", "-recent"
"""The names of the files are that of the database, and these."""
_NUMBER = struct.Struct("<Q")
_SECOND = struct.Struct("<qqIII")
"""Second, number of its list of keys, bytes of that list (0: it is stored), bytes of values, CRC-32."""
_PAUSE_S = 0.005

RecentSecond = tuple[int, int, bytes, bytes]
"""Second, number of its list of keys, that list where it is new, values; both compressed."""


class Generation:
    """The files beside a history that others read, of its one writer. Raises OSError."""

    def __init__(self, path: Path) -> None:
        """Open them beside the database at `path`, and make them where they are not."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(f"{path}{NUMBER}", flags, 0o644)
        try:
            self._number = _number_in(self._file) or 0
            self._recent = os.open(f"{path}{RECENT}", flags | os.O_APPEND, 0o644)
        except OSError:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        os.close(self._recent)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The log is moved within. The number stays odd where that fails: the database may have a part."""
        self._put(self._number | 1)
        yield
        os.ftruncate(self._recent, 0)
        self._put((self._number | 1) + 1)

    def add(self, second: int, order: int, keys: bytes, values: bytes) -> None:
        """Show a second that is in the log."""
        content = keys + values
        sizes = (len(keys), len(values), zlib.crc32(content))
        os.write(self._recent, _SECOND.pack(second, order, *sizes) + content)

    def _put(self, number: int) -> None:
        os.pwrite(self._file, _NUMBER.pack(number), 0)
        self._number = number


def generation_of(path: Path, wait_s: float) -> int | None:
    """The number of a history whose log is not being moved; None where its writer keeps none.

    Raises TimeoutError where it is being moved for `wait_s` seconds, and OSError.
    """
    file = _opened(f"{path}{NUMBER}")
    if file is None:
        return None
    deadline = time.monotonic() + wait_s
    try:
        while (number := _number_in(file)) is not None and number % 2:
            if time.monotonic() > deadline:
                raise TimeoutError("its writer was ended while it wrote, and has not come back")
            time.sleep(_PAUSE_S)
        return number
    finally:
        os.close(file)


def recent_seconds(path: Path) -> Iterator[RecentSecond]:
    """Whole seconds that are not in the database yet. Raises OSError."""
    file = _opened(f"{path}{RECENT}")
    if file is None:
        return
    with os.fdopen(file, "rb") as opened:
        content = opened.read()
    at = 0
    while at + _SECOND.size <= len(content):
        second, order, keys, values, check = _SECOND.unpack_from(content, at)
        at += _SECOND.size
        if at + keys + values > len(content) or zlib.crc32(content[at : at + keys + values]) != check:
            return
        yield second, order, content[at : at + keys], content[at + keys : at + keys + values]
        at += keys + values


def _opened(name: str) -> int | None:
    """A regular file; None where it is not there."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _number_in(file: int) -> int | None:
    content = os.pread(file, _NUMBER.size, 0)
    return int(_NUMBER.unpack(content)[0]) if len(content) == _NUMBER.size else None


FORMAT = 1
BUSY_S = 5.0
"""How long one waits for another process that writes."""
MOVE_S = 10.0
"""How often what was committed comes into the database of a shared history, where others read it: each time
waits for the disk twice."""
_MOST_LOG = 16 << 20
"""Of the log of a shared history, before it is moved sooner."""
_METRICS = 4096
"""More metrics than there will be: a piece has the number of its block times this, and that of its metric."""
_MOST_CONTEXTS = 5000
_PAGE = 4096
_NEARLY_FULL = 0.9
_TABLES = """
CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, level INTEGER NOT NULL, start INTEGER NOT NULL,
    steps INTEGER NOT NULL, until INTEGER NOT NULL
);
CREATE INDEX blocks_of_level ON blocks (level, id);
CREATE TABLE pieces (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, keys BLOB NOT NULL);
CREATE TABLE seconds (slot INTEGER PRIMARY KEY, keys INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE contexts (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, body TEXT NOT NULL);
"""


class WrittenMeanwhile(sqlite3.OperationalError):
    """What was read is not of one time: it can be read again."""


class NoHistory(Exception):
    """There is no history in that place, or none that can be read; says why."""


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """Steps of one level that follow one another."""

    id: int
    level: int
    start: int
    """In seconds since 1970."""
    steps: int
    until: int
    """The last block of the finer level that is in it."""

    @property
    def end(self) -> int:
        """Where its last step ends."""
        return self.start + self.steps * LEVELS[self.level].step_s


@dataclass(frozen=True, slots=True)
class OpenSecond:
    """What was written of one second of a minute that may still change."""

    slot: int
    keys: Sequence[Key]
    values: array[float]
    back: bytes
    """For how many seconds before it each value stands, too."""


class HistoryStore:
    """The database. All but the constructor raises sqlite3.Error where the disk or the file fails."""

    def __init__(self, path: Path, *, write: bool, shared: bool = False) -> None:
        """Open it, and make it where it is to be written. Raises NoHistory where that cannot be.

        A `shared` one that is written is read by other users: see `generation`. It has one writer, which the
        caller sees to. Whether one that is read is shared, its files say.
        """
        self.path = path
        self._generation: Generation | None = None
        self._read: int | None = None
        self._moved = time.monotonic()
        self._most_log = _MOST_LOG
        try:
            if shared and write:
                self._base = self._open_shared()
            elif write:
                self._base = _for_writing(path)
            else:
                path.stat()
                self._read = generation_of(path, BUSY_S)
                self._base = _for_reading(path, shared=self._read is not None)
            self._numbers: dict[str, int] = dict(self._base.execute("SELECT name, id FROM metrics"))
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            raise NoHistory(f"{path}: {error}") from error

    def _open_shared(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._generation = Generation(self.path)
        # An earlier release had shared memory, which others could lock.
        Path(f"{self.path}-shm").unlink(missing_ok=True)
        with self._generation.moving():
            base = _for_writing(self.path, alone=True)
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return base

    @staticmethod
    def piece_number(block: int, metric: int) -> int:
        """The number of a piece by those of its block and its metric."""
        return block * _METRICS + metric

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        # A disk that is full or fails keeps nothing open.
        with contextlib.suppress(sqlite3.Error, OSError):
            self._move()
        with contextlib.suppress(sqlite3.Error):
            self._base.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._generation is not None:
            with contextlib.suppress(OSError):
                self._generation.close()
            self._generation = None

    def _move(self) -> None:
        """Move what the log has into the database, where others see it."""
        if self._generation is not None:
            with self._generation.moving():
                self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._moved = time.monotonic()

    def _move_if_due(self) -> None:
        if self._generation is None:
            return
        log = Path(f"{self.path}-wal")
        if time.monotonic() - self._moved > MOVE_S or log.stat().st_size > self._most_log:
            self._move()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is written within."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._base.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
            self._numbers = {}
            raise
        self._move_if_due()

    @contextlib.contextmanager
    def one_state(self) -> Iterator[None]:
        """All that is read within is of one time. Raises WrittenMeanwhile where it is not."""
        self._base.execute("BEGIN")
        try:
            yield
        except sqlite3.Error as error:
            self._refuse_changed(error)
            raise
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
        self._refuse_changed()

    def _refuse_changed(self, error: sqlite3.Error | None = None) -> None:
        if self._read is not None and generation_of(self.path, BUSY_S) != self._read:
            raise WrittenMeanwhile("it was written while it was read") from error

    # What is written.

    def put_second(self, second: OpenSecond, order: int, *, new_order: bool) -> None:
        """Keep a second of an open minute; `order` is the number of its list of keys."""
        text = json.dumps(second.keys, separators=(",", ":")).encode() if new_order else b""
        keys = zlib.compress(text, 1) if new_order else b""
        body = zlib.compress(second.values.tobytes() + second.back, 1)
        with self.transaction():
            if new_order:
                self._base.execute("INSERT OR REPLACE INTO orders VALUES (?, ?)", (order, keys))
            self._base.execute("INSERT OR REPLACE INTO seconds VALUES (?, ?, ?)", (second.slot, order, body))
        if self._generation is not None:
            self._generation.add(second.slot, order, keys, body)

    def put_block(self, level: int, start: int, steps: int, until: int, pieces: Mapping[str, bytes]) -> None:
        """Keep a block, and let the oldest ones of its level go. Within a transaction."""
        stack = self._base.execute(
            "INSERT INTO blocks (level, start, steps, until) VALUES (?, ?, ?, ?)",
            (level, start, steps, until),
        )
        block = stack.lastrowid or 0
        self._base.executemany(
            "INSERT INTO pieces VALUES (?, ?)",
            ((self.piece_number(block, self._number_of(name)), body) for name, body in pieces.items()),
        )

    def copy_block(self, block: StoredBlock, pieces: Mapping[str, bytes]) -> None:
        """Keep a block of another file under its own number. Within a transaction."""
        row = (block.id, block.level, block.start, block.steps, block.until)
        self._base.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?)", row)
        self._base.executemany(
            "INSERT INTO pieces VALUES (?, ?)",
            ((self.piece_number(block.id, self._number_of(name)), body) for name, body in pieces.items()),
        )

    def copy_context(self, at: float, body: str) -> None:
        """Keep a context of another file. Within a transaction."""
        self._base.execute("INSERT INTO contexts (at, body) VALUES (?, ?)", (at, body))

    def forget_seconds(self, end: int) -> None:
        """What was before that is kept as a block now. Within a transaction."""
        self._base.execute("DELETE FROM seconds WHERE slot < ?", (end,))
        self._base.execute("DELETE FROM orders WHERE id NOT IN (SELECT keys FROM seconds)")

    def put_context(self, at: float, body: str) -> None:
        """Keep what stays the same for long, from a time on."""
        with self.transaction():
            stack = self._base.execute("INSERT INTO contexts (at, body) VALUES (?, ?)", (at, body))
            oldest = (stack.lastrowid or 0) - _MOST_CONTEXTS
            self._base.execute("DELETE FROM contexts WHERE id <= ?", (oldest,))
        self._move()

    def forget_old_blocks(self, level: int) -> None:
        """Let blocks go that are older than what is kept, if the next level has them.

        Within a transaction.
        """
        left = LEVELS[level].kept_s
        used = self.used_until(level + 1) if level + 1 < len(LEVELS) else None
        for block, steps in self._base.execute(
            "SELECT id, steps FROM blocks WHERE level = ? ORDER BY id DESC", (level,)
        ).fetchall():
            if left <= 0 and (used is None or block <= used):
                self._forget(block)
            left -= steps * LEVELS[level].step_s

    def make_room(self) -> None:
        """Where the file is nearly as large as it may be, let a tenth of each level go. In a transaction."""
        pages, free, most = (
            self._base.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "max_page_count")
        )
        if pages - free < _NEARLY_FULL * most:
            return
        for level in range(len(LEVELS)):
            blocks = self.blocks(level)
            for block in blocks[: -(-len(blocks) // 10)]:
                self._forget(block.id)

    def _forget(self, block: int) -> None:
        self._base.execute("DELETE FROM blocks WHERE id = ?", (block,))
        between = (block * _METRICS, (block + 1) * _METRICS)
        self._base.execute("DELETE FROM pieces WHERE id >= ? AND id < ?", between)

    def limit(self, most_bytes: int) -> None:
        """Never let database and log grow beyond this: SQLite refuses what would, as on a full disk."""
        self._most_log = min(_MOST_LOG, most_bytes // 8)
        left = most_bytes if self._generation is None else most_bytes - 3 * self._most_log
        self._base.execute(f"PRAGMA max_page_count = {max(64, left // _PAGE)}")

    # What is read.

    def blocks(self, level: int, after: int = 0) -> list[StoredBlock]:
        """Blocks of a level that were kept after that one, in the order in which they were."""
        rows = self._base.execute(
            "SELECT id, level, start, steps, until FROM blocks WHERE level = ? AND id > ? ORDER BY id",
            (level, after),
        )
        return [StoredBlock(*row) for row in rows]

    def used_until(self, level: int) -> int:
        """The last block of the finer level that this level has in it; 0 where there is none."""
        (found,) = self._base.execute("SELECT max(until) FROM blocks WHERE level = ?", (level,)).fetchone()
        return found or 0

    def piece(self, block: int, metric: str) -> bytes | None:
        """The bytes of one metric in a block; None where it has none."""
        number = self._numbers.get(metric)
        if number is None:
            return None
        key = self.piece_number(block, number)
        row = self._base.execute("SELECT body FROM pieces WHERE id = ?", (key,))
        found = row.fetchone()
        return None if found is None else bytes(found[0])

    def metrics(self) -> list[str]:
        """Names of all metrics that were ever kept."""
        return [name for (name,) in self._base.execute("SELECT name FROM metrics ORDER BY id")]

    def seconds(self) -> list[OpenSecond]:
        """The open minutes, without seconds that the disk gave back otherwise than they were written."""
        orders: dict[int, list[Key]] = {}
        for number, keys in self._base.execute("SELECT id, keys FROM orders"):
            with contextlib.suppress(zlib.error, ValueError, TypeError):
                orders[number] = [tuple(key) for key in json.loads(zlib.decompress(keys))]
        rows: dict[int, tuple[int, bytes]] = {
            slot: (order, body)
            for slot, order, body in self._base.execute("SELECT slot, keys, body FROM seconds ORDER BY slot")
        }
        for slot, order, packed, body in recent_seconds(self.path) if self._read is not None else ():
            rows[slot] = order, body
            if packed:
                with contextlib.suppress(zlib.error, ValueError, TypeError):
                    orders[order] = [tuple(key) for key in json.loads(zlib.decompress(packed))]
        found = []
        for slot, (order, packed) in sorted(rows.items()):
            with contextlib.suppress(zlib.error, TypeError):
                keys, body = orders.get(order, []), zlib.decompress(packed)
                if len(body) == 5 * len(keys):
                    size = 4 * len(keys)
                    found.append(OpenSecond(slot, keys, array("f", body[:size]), body[size:]))
        return found

    def context(self, at: float) -> tuple[float, str] | None:
        """What was the same for long at a time, and since when; the first known, where it is before that."""
        for question, values in (
            ("SELECT at, body FROM contexts WHERE at <= ? ORDER BY at DESC, id DESC LIMIT 1", (at,)),
            ("SELECT at, body FROM contexts ORDER BY at, id LIMIT 1", ()),
        ):
            if found := self._base.execute(question, values).fetchone():
                return float(found[0]), str(found[1])
        return None

    def _number_of(self, metric: str) -> int:
        if not self._numbers:
            self._numbers = dict(self._base.execute("SELECT name, id FROM metrics"))
        if metric not in self._numbers:
            number = len(self._numbers) + 1
            self._base.execute("INSERT INTO metrics VALUES (?, ?)", (number, metric))
            self._numbers[metric] = number
        return self._numbers[metric]


def _for_writing(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    """`alone`: without any lock, and without memory that is shared with readers."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    base = sqlite3.connect(
        f"{path.absolute().as_uri()}{'?vfs=unix-none' if alone else ''}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    if alone:
        # The writer moves its log itself: a part of it must not come into the database at another time.
        base.execute("PRAGMA locking_mode = EXCLUSIVE")
        base.execute("PRAGMA wal_autocheckpoint = 0")
    base.execute(f"PRAGMA page_size = {_PAGE}")
    base.execute("PRAGMA journal_mode = WAL")
    # A kill loses nothing, and a machine that loses its power what came after the last checkpoint.
    base.execute("PRAGMA synchronous = NORMAL")
    base.execute("PRAGMA cache_size = -2048")
    if base.execute("PRAGMA user_version").fetchone()[0] == 0:
        base.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
    return _checked(base)


def _for_reading(path: Path, *, shared: bool) -> sqlite3.Connection:
    """Also for users who may not write there: SQLite needs the files of a writer then, or that none are."""
    locks = not shared and path.with_name(f"{path.name}-wal").exists()
    more = "" if locks else "&immutable=1"
    base = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{more}", uri=True, timeout=BUSY_S, isolation_level=None
    )
    return _checked(base)


def _checked(base: sqlite3.Connection) -> sqlite3.Connection:
    (version,) = base.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        base.close()
        raise sqlite3.DatabaseError(f"it has format {version}, and this release knows {FORMAT}")
    return base
