"""One launch, as the test that runs in it sees it: its libraries, its limits, and its checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.workload.counted_file import BLOCK_BYTES, CountedFile
from gridwright.workload.launches.traffic import LaunchTraffic, Way, blocked_time
from gridwright.workload.replays.work import NOTHING, ReplayWork
from gridwright.workload.table_facts import TableFacts
from gridwright.workload.table_files import TableReader, TableWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from gridwright.workload.datasets.checksum import Checksum


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
