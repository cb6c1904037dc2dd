"""The launches of a run as a Parquet file: one row each, libraries and shares as columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridwright.runs.atomic import write_atomically
from gridwright.runs.workload_record import LaunchRecord

_LIBRARIES = ("data", "work", "util")
_INTEGERS = (
    "number",
    "stream",
    "copy",
    "cores",
    "memory_limit_bytes",
    "peak_memory_bytes",
    "read_bytes",
    "written_bytes",
    "device_read_bytes",
    "device_written_bytes",
    "exit_status",
    "restarts",
)
_FLOATS = (
    "submitted",
    "started",
    "ended",
    "real_s",
    "user_s",
    "system_s",
    "core_wait_s",
    "io_wait_s",
    "memory_wait_s",
    "cpu_real_ratio",
    "bound_share",
)
_TEXTS = ("test", "class", "node", "bound_by", "signal", "reason", "log", "job")


def write_launches(path: Path, launches: Sequence[LaunchRecord]) -> None:
    """Write launches atomically. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    traffic = [
        (f"{library}_{name}", kind)
        for library in _LIBRARIES
        for name, kind in (
            ("read_bytes", pa.int64()),
            ("written_bytes", pa.int64()),
            ("read_wait_s", pa.float64()),
            ("write_wait_s", pa.float64()),
        )
    ]
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in _INTEGERS),
            *((name, pa.string()) for name in _TEXTS),
            *((name, pa.float64()) for name in _FLOATS),
            ("ok", pa.bool_()),
            *traffic,
        ]
    )
    table = pa.Table.from_pylist([_row(launch) for launch in launches], schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def _row(launch: LaunchRecord) -> dict[str, Any]:
    row = launch.model_dump(by_alias=True)
    for library, traffic in row.pop("libraries").items():
        row |= {f"{library}_{name}": value for name, value in traffic.items()}
    return row
