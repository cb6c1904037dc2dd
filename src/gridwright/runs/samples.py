"""The samples of a run as a Parquet file: one row per node, library, phase and second."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def with_node(rows: Iterable[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    """The rows, each with its node: `node` where it names none."""
    return [row | {"node": row.get("node") or node} for row in rows]


def write_samples(path: Path, rows: list[dict[str, Any]], node: str) -> None:
    """Write samples atomically; those that name no node are of `node`. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gridwright.runs.atomic import write_atomically

    schema = pa.schema(
        [
            ("time", pa.float64()),
            ("node", pa.string()),
            ("library", pa.string()),
            ("op", pa.string()),
            ("elapsed_s", pa.float64()),
            ("interval_s", pa.float64()),
            ("read_bytes", pa.int64()),
            ("written_bytes", pa.int64()),
            ("operations", pa.int64()),
            ("cpu_percent", pa.float64()),
            ("memory_used_bytes", pa.int64()),
            ("device", pa.string()),
            ("device_read_bytes", pa.int64()),
            ("device_written_bytes", pa.int64()),
            ("launches_running", pa.int64()),
        ]
    )
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
