"""A table as a Parquet file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
