"""One launch, as the test that runs in it sees it: its libraries, its limits, and its checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.workload.table_facts import TableFacts
from gridwright.workload.table_files import CountedFile, TableReader, TableWriter
from gridwright.workload.traffic import LaunchTraffic, blocked_time

if TYPE_CHECKING:
    import pyarrow as pa

    from gridwright.workload.datasets.checksum import Checksum


class WrongAnswer(Exception):
    """A test found that its own answer is wrong."""


class Launch:
    """What a test works with. Paths are private to the launch, but for the tables in data."""

    def __init__(
        self,
        *,
        work: Path,
        util: Path,
        tables: Mapping[str, TableFacts],
        traffic: LaunchTraffic,
        cores: int,
        memory_bytes: int,
        settings: Mapping[str, int],
    ) -> None:
        """Make the launch of a test.

        `settings` are the figures of the scale that no table has, such as how many trees to grow.
        """
        self.work = work
        self.util = util
        self.cores = cores
        self.memory_bytes = memory_bytes
        self.settings = settings
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
        return TableReader(self._tables[table].path, "data", self.traffic)

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
        return TableWriter(self.temporary(name), schema, "work", self.traffic)

    def append(self, name: str, schema: pa.Schema) -> TableWriter:
        """Go on with a temporary table in work. Raises OSError."""
        return TableWriter(self.temporary(name), schema, "work", self.traffic, append=True)

    def reread(self, name: str) -> TableReader:
        """Read a temporary table from work. Raises OSError."""
        return TableReader(self.temporary(name), "work", self.traffic)

    def temporary(self, name: str) -> Path:
        """Where a temporary table lies."""
        return self.work / f"{name}.arrows"

    def open_text(self, path: Path, mode: str, library: str) -> CountedFile:
        """Open a text file of a library, counted like a table. Raises OSError."""
        return CountedFile(path, mode, library, self.traffic)

    @contextmanager
    def spilling(self) -> Iterator[Path]:
        """Give the directory where an engine spills to, and count what it moves there on its own.

        That is all this process reads and writes meanwhile (proc_pid_io(5)) less what passes
        through the tables, and all its waiting less theirs.
        """
        before, own, waited = _io(), self.traffic.totals(), self.traffic.waited_ns()
        try:
            with blocked_time() as blocked:
                yield self.util
        finally:
            after, now = _io(), self.traffic.totals()
            moved = [
                (after[0] - before[0]) - sum(now[each].read_bytes - own[each].read_bytes for each in now),
                (after[1] - before[1])
                - sum(now[each].written_bytes - own[each].written_bytes for each in now),
            ]
            rest = max(0, blocked[0] - (self.traffic.waited_ns() - waited))
            whole = max(1, moved[0] + moved[1])
            self.traffic.add("util", "read", max(0, moved[0]), rest * max(0, moved[0]) // whole)
            self.traffic.add("util", "write", max(0, moved[1]), rest * max(0, moved[1]) // whole)

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


def _io() -> tuple[int, int]:
    with open("/proc/self/io", "rb", buffering=0) as file:  # noqa: PTH123 - unbuffered: it counts itself
        fields = dict(line.split(b": ") for line in file.read().splitlines())
    return int(fields[b"rchar"]), int(fields[b"wchar"])
