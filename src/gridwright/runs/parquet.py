"""A table as a Parquet file."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from gridwright.runs.atomic import write_atomically


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> None:
    """Write the columns of `types`, names of Arrow's type functions, atomically. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in types.items()])
    with _no_pandas():
        table = pa.table({name: columns[name] for name in types}, schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def read_columns(path: Path, most_rows: int) -> dict[str, list[Any]]:
    """Read the columns of a Parquet file, or of a CSV file with a header by its name.

    Moments are Unix time and durations seconds. Raises OSError where it cannot be read, and ValueError with
    the reason where it is no such file, is damaged, or has more rows.
    """
    import pyarrow as pa

    with _no_pandas():
        try:
            table = _csv_table(path) if path.suffix == ".csv" else _parquet_table(path, most_rows)
            if table.num_rows > most_rows:
                raise ValueError(f"has {table.num_rows} rows, and {most_rows} are read at most")
            return {name: _plain(column) for name, column in zip(table.column_names, table, strict=True)}
        except (pa.ArrowException, csv.Error, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(str(error).partition("\n")[0] or type(error).__name__) from error


def _csv_table(path: Path) -> Any:  # noqa: ANN401 - Arrow has no types
    """Cells become what all of their column are: Arrow's own reader of CSV starts threads that outlast it."""
    import pyarrow as pa

    with path.open(newline="", encoding="utf-8-sig") as file:
        head, *rows = list(csv.reader(file, strict=True)) or [[]]
    rows = [row for row in rows if row]
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise ValueError(f"row {number} has {len(row)} cells, and the header has {len(head)}")
    columns = list(zip(*rows, strict=True)) or [()] * len(head)
    texts = [pa.array([cell or None for cell in column], pa.string()) for column in columns]
    return pa.Table.from_arrays([_typed(column) for column in texts], head)


def _typed(column: Any) -> Any:  # noqa: ANN401
    import pyarrow as pa

    for kind in (pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column


def _parquet_table(path: Path, most_rows: int) -> Any:  # noqa: ANN401
    import pyarrow.parquet as pq

    with path.open("rb") as opened:
        file = pq.ParquetFile(opened, pre_buffer=False)
        if file.metadata.num_rows > most_rows:
            raise ValueError(f"has {file.metadata.num_rows} rows, and {most_rows} are read at most")
        # Threads that end while the interpreter does make it abort.
        return file.read(use_threads=False)


def _plain(column: Any) -> list[Any]:  # noqa: ANN401
    """Values of Python; Arrow itself gives moments of nanoseconds as those of pandas alone."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        whole = pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("us")
        counted = column.cast(whole, safe=False).cast(pa.int64()).to_pylist()
        return [None if each is None else each / 1e6 for each in counted]
    if pa.types.is_decimal(kind):
        return list(column.cast(pa.float64()).to_pylist())
    return list(column.to_pylist())


class _Absent(MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


@contextmanager
def _no_pandas() -> Iterator[None]:
    """Have Arrow find no pandas, which it imports to ask whether a list is a Series: that takes a second."""
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)
