"""One launch, as the test that runs in it sees it: its libraries, its limits, its checks, its tables on disk.

Tables are uncompressed Arrow, streamed in record batches.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gridwright.workload.launches.program_request import NOTHING, ReplayWork, TableFacts
from gridwright.workload.launches.traffic import BLOCK_BYTES, CountedFile, LaunchTraffic, Way, blocked_time

if TYPE_CHECKING:
    import pyarrow as pa

    from gridwright.workload.datasets.table import Checksum


class WrongAnswer(Exception):
    """A test found that its own answer is wrong."""


@dataclass(frozen=True, slots=True)
class Spilled:
    """What an engine moved to and from util on its own."""

    read_bytes: int = 0
    written_bytes: int = 0
    read_calls: int = 0
    write_calls: int = 0


class Launch:
    """What a test works with. Paths are private to the launch, but for the tables in data."""

    def __init__(  # noqa: PLR0913 - all that its request has
        self,
        *,
        work: Path,
        util: Path,
        tables: Mapping[str, TableFacts],
        traffic: LaunchTraffic,
        cores: int,
        memory_bytes: int,
        settings: Mapping[str, int],
        replay: ReplayWork = NOTHING,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Make the launch of a test, which reads and writes files in blocks of `block_bytes`.

        `settings` are the figures of the scale that no table has, such as how many trees to grow. `replay`
        is what the launch of a profile does.
        """
        self.work = work
        self.util = util
        self.cores = cores
        self.memory_bytes = memory_bytes
        self.settings = settings
        self.replay = replay
        self.block_bytes = block_bytes
        self.traffic = traffic
        self._tables = tables

    def facts(self, table: str) -> TableFacts:
        """What is known of a table of the data set."""
        return self._tables[table]

    def read(self, table: str) -> Iterator[pa.RecordBatch]:
        """Yield a table of the data set block by block.

        Raises WrongAnswer at its end if it is not what was generated, and OSError.
        """
        reader = self.open(table)
        yield from reader
        self.check_table(table, reader)

    def open(self, table: str) -> TableReader:
        """Open a table of the data set; `check_table` is then the caller's. Raises OSError."""
        return TableReader(self._tables[table].path, "data", self.traffic, self.block_bytes)

    def check_table(self, table: str, reader: TableReader) -> None:
        """Check all that was read of a table. Raises WrongAnswer."""
        facts = self._tables[table]
        self.check_rows(table, reader.checksum, facts.rows, facts.checksum)

    def check_rows(self, what: str, found: Checksum, rows: int, checksum: str) -> None:
        """Check a table's number of rows and the checksum over them. Raises WrongAnswer."""
        self.check(f"rows of {what}", found.rows, rows)
        if found.value != checksum:
            raise WrongAnswer(f"{what}: its values have checksum {found.value}, expected {checksum}")

    def write(self, name: str, schema: pa.Schema) -> TableWriter:
        """Begin a temporary table in work. Raises OSError."""
        return TableWriter(self.temporary(name), schema, "work", self.traffic, self.block_bytes)

    def append(self, name: str, schema: pa.Schema) -> TableWriter:
        """Go on with a temporary table in work. Raises OSError."""
        return TableWriter(self.temporary(name), schema, "work", self.traffic, self.block_bytes, append=True)

    def reread(self, name: str) -> TableReader:
        """Read a temporary table from work. Raises OSError."""
        return TableReader(self.temporary(name), "work", self.traffic, self.block_bytes)

    def temporary(self, name: str) -> Path:
        """Where a temporary table lies."""
        return self.work / f"{name}.arrows"

    def open_file(self, path: Path, mode: str, library: str) -> CountedFile:
        """Open a file of a library, text or other, counted like a table. Raises OSError."""
        return CountedFile(path, mode, library, self.traffic, self.block_bytes)

    @contextmanager
    def spilling(self, spilled: Callable[[], Spilled]) -> Iterator[None]:
        """Count what an engine moves to and from util on its own, as `spilled` tells at the end.

        If it moved anything, all waiting meanwhile that was not for a table was for that.
        """
        waited = self.traffic.waited_ns()
        try:
            with blocked_time() as blocked:
                yield
        finally:
            moved = spilled()
            rest = max(0, blocked[0] - (self.traffic.waited_ns() - waited))
            whole = max(1, moved.read_bytes + moved.written_bytes)
            moves: tuple[tuple[Way, int, int], ...] = (
                ("read", moved.read_bytes, moved.read_calls),
                ("write", moved.written_bytes, moved.write_calls),
            )
            for way, size, calls in moves:
                self.traffic.add("util", way, size, rest * size // whole, calls)

    def check(self, what: str, found: float, expected: float, *, tolerance: float = 0.0) -> None:
        """Check a figure, within `tolerance` (absolute). Raises WrongAnswer."""
        wrong = found != expected if tolerance == 0 else not abs(found - expected) <= tolerance
        if wrong or math.isnan(found):
            within = f" within {tolerance:g}" if tolerance else ""
            raise WrongAnswer(f"{what}: {found!r}, expected {expected!r}{within}")

    def require(self, what: str, fulfilled: bool) -> None:
        """Check what is no figure. Raises WrongAnswer."""
        if not fulfilled:
            raise WrongAnswer(what)


_FILE_MAGIC = b"ARROW1\0\0"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Ends an Arrow stream (Arrow columnar format, "IPC Streaming Format")."""


class TableReader:
    """Reads a table from its beginning, block by block; iterate over it."""

    def __init__(
        self, path: Path, library: str, traffic: LaunchTraffic, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """Open the table. Raises OSError, and ValueError if it is no Arrow table."""
        import pyarrow as pa

        from gridwright.workload.datasets.table import Checksum

        self.path = path
        self.checksum = Checksum()
        """Of the rows read so far."""
        self._file = CountedFile(path, "r", library, traffic, block_bytes)
        if self._file.read(len(_FILE_MAGIC)) != _FILE_MAGIC:
            self._file.seek(0)
        self._source = pa.PythonFile(self._file, mode="r")
        try:
            self._stream = pa.ipc.open_stream(self._source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is no Arrow table: {error}") from error

    @property
    def schema(self) -> pa.Schema:
        """The schema of every block."""
        return self._stream.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the blocks that are left, and count them into `checksum`; closes the file at the end."""
        for batch in self._stream:
            self.checksum.add_batch(batch)
            yield batch
        self.close()

    def to_arrow(self) -> pa.RecordBatchReader:
        """The blocks that are left, for an engine that reads Arrow streams."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TableWriter:
    """Writes a table block by block, as an Arrow stream, and can add to one."""

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        library: str,
        traffic: LaunchTraffic,
        block_bytes: int = BLOCK_BYTES,
        *,
        append: bool = False,
    ) -> None:
        """Begin the table, or go on at the end of the one that is there. Raises OSError."""
        from gridwright.workload.datasets.table import Checksum

        self.path = path
        self.schema = schema
        self.checksum = Checksum()
        """Of the rows written here."""
        self._file = CountedFile(path, "a" if append else "w", library, traffic, block_bytes)
        if append:
            self._file.seek(-len(END_OF_STREAM), os.SEEK_END)
        else:
            self._file.write(schema.serialize())

    def write(self, batch: pa.RecordBatch, *, check: bool = True) -> None:
        """Write a block; `check` counts it into `checksum`."""
        if check:
            self.checksum.add_batch(batch)
        self._file.write(batch.serialize())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(END_OF_STREAM)
            self._file.close()
            return
        # What went wrong before is to be told, not that the rest cannot be written either.
        with contextlib.suppress(OSError):
            self._file.close()
