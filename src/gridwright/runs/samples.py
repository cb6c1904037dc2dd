"""The samples of a run as a Parquet file: one row per node, library, phase and second."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SAMPLE_COLUMNS = {
    "time": "float64",
    "node": "string",
    "library": "string",
    "op": "string",
    "elapsed_s": "float64",
    "interval_s": "float64",
    "read_bytes": "int64",
    "written_bytes": "int64",
    "operations": "int64",
    "cpu_percent": "float64",
    "memory_used_bytes": "int64",
    "device": "string",
    "device_read_bytes": "int64",
    "device_written_bytes": "int64",
    "launches_running": "int64",
}
"""What a sample has, each with its type in Arrow; null where it was not measured."""


def with_node(rows: Iterable[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    """The rows, each with its node: `node` where it names none."""
    return [row | {"node": row.get("node") or node} for row in rows]


def write_samples(path: Path, rows: list[dict[str, Any]], node: str) -> None:
    """Write samples atomically; those that name no node are of `node`. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gridwright.runs.atomic import write_atomically

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in SAMPLE_COLUMNS.items()])
    table = pa.Table.from_pylist(with_node(rows, node), schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Read samples as rows. Raises OSError, and ValueError if the file is no such table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from error
    return rows
