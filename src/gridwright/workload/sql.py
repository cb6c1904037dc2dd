"""DuckDB as a launch uses it: its threads, its memory, and where it spills."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from gridwright.workload.launches.launch import Launch, Spilled

if TYPE_CHECKING:
    import pyarrow as pa

_MEMORY_PART = 4
"""A sort or a join gets a quarter of the launch's memory, as SORTSIZE is commonly set below MEMSIZE:
the rest is Python, its libraries, and the blocks on their way."""
BLOCK_ROWS = 16_384


_SPILLED = """
    SELECT op, sum(bytes)::BIGINT, count(*) FROM duckdb_logs_parsed('FileSystem')
    WHERE op IN ('READ', 'WRITE') AND starts_with(path, ?) GROUP BY op
"""


@contextmanager
def database(launch: Launch, *, spills: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory; with `spills` it spills to util, and that is counted.

    DuckDB itself logs each call that moves bytes of a file of its own, and so of nothing else that the
    process reads: neither libraries nor what Python imports on its way.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": launch.cores,
        "memory_limit": f"{launch.memory_bytes // _MEMORY_PART // 1024}KiB",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "temp_directory": str(launch.util) if spills else "",
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        connection.execute("SET enable_progress_bar = false")
        if not spills:
            yield connection
            return
        connection.execute("CALL enable_logging('FileSystem')")
        with launch.spilling(lambda: _spilled(connection, launch.util)):
            yield connection
    finally:
        connection.close()


def _spilled(connection: duckdb.DuckDBPyConnection, directory: Path) -> Spilled:
    """What the database moved in this directory so far; nothing if it cannot tell any more."""
    try:
        found = connection.execute(_SPILLED, [f"{directory}{os.sep}"]).fetchall()
    except duckdb.Error:
        # A database that has failed: so has the launch, which says why.
        return Spilled()
    moved = {op: (size, calls) for op, size, calls in found}
    (read, reads), (written, writes) = moved.get("READ", (0, 0)), moved.get("WRITE", (0, 0))
    return Spilled(read, written, reads, writes)


def blocks(relation: duckdb.DuckDBPyRelation, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query block by block, in the types of `schema`.

    DuckDB has no binary of a fixed size: it comes back as variable, and is made fixed again.
    """
    import pyarrow as pa

    for batch in relation.to_arrow_reader(BLOCK_ROWS):
        columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
