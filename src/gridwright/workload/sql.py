"""DuckDB as a launch uses it: its threads, its memory, and where it spills."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from gridwright.workload.launch import Launch

if TYPE_CHECKING:
    import pyarrow as pa

_MEMORY_PART = 4
"""A sort or a join gets a quarter of the launch's memory, as SORTSIZE is commonly set below MEMSIZE:
the rest is Python, its libraries, and the blocks on their way."""
BLOCK_ROWS = 16_384


@contextmanager
def database(launch: Launch, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory that spills to `spill`, and only there."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": launch.cores,
        "memory_limit": f"{launch.memory_bytes // _MEMORY_PART // 1024}KiB",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "temp_directory": str(spill) if spill else "",
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    finally:
        connection.close()


def blocks(relation: duckdb.DuckDBPyRelation, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query block by block, in the types of `schema`.

    DuckDB has no binary of a fixed size: it comes back as variable, and is made fixed again.
    """
    import pyarrow as pa

    for batch in relation.to_arrow_reader(BLOCK_ROWS):
        columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
