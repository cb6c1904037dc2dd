"""A table as a Parquet file, and the launches of a run as one: libraries and shares as columns."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from importlib.abc import MetaPathFinder
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from gridwright.atomic import write_atomically
from gridwright.handed_files import memory_within, open_file, read_within
from gridwright.messages import Extensible, plain
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic

MOST_MEMORY = 4 << 30
"""That reading a table takes, with what an allocator reserves: Arrow believes sizes that stand in a file."""
_MOST_TABLE_BYTES = 1 << 30
_MOST_CSV_BYTES = 128 << 20
_PIECE_ROWS = 65_536


def write_columns(
    path: Path | str,
    columns: Mapping[str, Sequence[Any]],
    types: Mapping[str, str],
    *,
    directory: int | None = None,
) -> None:
    """Write the columns of `types`, names of Arrow's type functions: `write_atomically`. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in types.items()])
    with _no_pandas():
        table = pa.table({name: columns[name] for name in types}, schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue(), directory=directory)


def read_columns(
    path: Path, most_rows: int, names: Collection[str] | None = None, *, follows: bool = True
) -> dict[str, list[Any]]:
    """Read the columns of a Parquet file, or of a CSV file with a header by its name; of `names`, if given.

    Moments are Unix time and durations seconds. Raises OSError where it cannot be read, and ValueError with
    the reason where it is no such file, is damaged, or has more rows.
    """
    import pyarrow as pa

    with _no_pandas():
        try:
            with memory_within(MOST_MEMORY):
                if path.suffix == ".csv":
                    return _plain_columns(_csv_table(path, most_rows))
                return _plain_columns(_parquet_table(path, most_rows, names, follows=follows))
        except MemoryError as error:
            raise ValueError(f"takes more than {MOST_MEMORY >> 30} GiB to be read, the limit") from error
        except (pa.ArrowException, csv.Error, OverflowError, UnicodeDecodeError, TypeError) as error:
            raise ValueError(str(error).partition("\n")[0] or type(error).__name__) from error


def _plain_columns(table: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - Arrow has no types
    return {name: _plain(column) for name, column in zip(table.column_names, table, strict=True)}


def _too_many(most_rows: int) -> ValueError:
    return ValueError(f"has more rows than {most_rows}, the limit of such a table")


def _csv_table(path: Path, most_rows: int) -> Any:  # noqa: ANN401
    """Cells become what all of their column are: Arrow's own reader of CSV starts threads that outlast it."""
    import pyarrow as pa

    text = io.StringIO(read_within(path, _MOST_CSV_BYTES).decode("utf-8-sig"), newline="")
    head, *rows = list(islice(csv.reader(text, strict=True), most_rows + 2)) or [[]]
    rows = [row for row in rows if row]
    if len(rows) > most_rows:
        raise _too_many(most_rows)
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


def _parquet_table(
    path: Path,
    most_rows: int,
    names: Collection[str] | None,
    *,
    follows: bool,
) -> Any:  # noqa: ANN401
    """What a file says of its rows and sizes is believed by nobody: it is read in pieces, and counted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # By name, Arrow would take UTF-8 only. `read_table` would import pandas.
    with open_file(path, follows=follows) as opened:
        file = pq.ParquetFile(opened, pre_buffer=False)
        if file.metadata.num_rows > most_rows:
            raise _too_many(most_rows)
        known = [name for name in file.schema_arrow.names if names is None or name in names]
        pieces, rows, size = [], 0, 0
        # Threads that end while the interpreter does make it abort.
        for piece in file.iter_batches(_PIECE_ROWS, columns=known, use_threads=False):
            rows, size = rows + piece.num_rows, size + piece.nbytes
            if rows > most_rows:
                raise _too_many(most_rows)
            if size > _MOST_TABLE_BYTES:
                raise ValueError(f"holds more than {_MOST_TABLE_BYTES >> 20} MiB, the limit of such a table")
            pieces.append(piece)
        return pa.Table.from_batches(pieces, pa.schema([file.schema_arrow.field(name) for name in known]))


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


_LIBRARIES = ("data", "work", "util")
_ARROW = {int: "int64", float: "float64", bool: "bool_"}


def write_launches(
    path: Path | str, launches: Sequence[LaunchRecord], *, directory: int | None = None
) -> None:
    """Write launches as `write_atomically`. Raises OSError."""
    types, rows = dict(_columns()), [_row(launch) for launch in launches]
    write_columns(path, {name: [row.get(name) for row in rows] for name in types}, types, directory=directory)


def launch_columns() -> tuple[str, ...]:
    """The names of all columns of such a file."""
    return tuple(name for name, _ in _columns())


def _columns() -> Iterator[tuple[str, str]]:
    """What is one figure or one text of a launch, and what of each library, each with its type in Arrow."""
    yield from _scalars(LaunchRecord)
    for library in _LIBRARIES:
        yield from ((f"{library}_{name}", kind) for name, kind in _scalars(LibraryTraffic))


def _scalars(record: type[Extensible]) -> Iterator[tuple[str, str]]:
    for name, kind in get_type_hints(record).items():
        kinds = [arg for arg in get_args(kind) or (kind,) if arg is not NoneType]
        if get_origin(kind) not in (list, dict) and not is_dataclass(kinds[0]):
            # A word out of a few is a text, too.
            yield name.rstrip("_"), _ARROW.get(kinds[0], "string")


def _row(launch: LaunchRecord) -> dict[str, Any]:
    row: dict[str, Any] = plain(launch)
    for library, traffic in row.pop("libraries").items():
        row |= {f"{library}_{name}": value for name, value in traffic.items()}
    return row
