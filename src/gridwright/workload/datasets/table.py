"""What a table of the data set is: its columns, how a part of it is made, and what tests expect of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from gridwright.workload.datasets.quantiles import Draws

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, NDArray[np.generic]]
Expected = dict[str, NDArray[np.int64] | NDArray[np.float64] | int | float]
BATCH_BYTES = 4 << 20
"""Rows are written and read in blocks of about this size."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some consecutive units of a table: what its maker is asked for.

    A unit is a row, or, in a table where one key has several rows, one key.
    """

    index: int
    start: int
    """First unit."""
    units: int
    total: Mapping[str, int]
    """Units of every table of the data set at this scale."""
    draws: Draws


@dataclass(frozen=True, slots=True)
class DataTable:
    """One table of the data set.

    `make` gives the columns of a part: all of 8-byte integers, 8-byte floats or fixed-width bytes
    of a multiple of 8. `expect` gives figures of these columns that tests check their answers
    against; they are added up over the parts, so each is a sum, a count or an array of such.
    """

    name: str
    columns: Mapping[str, str]
    """numpy type by name, in order."""
    make: Callable[[TablePart], Columns]
    expect: Callable[[Columns, TablePart], Expected] = field(default=lambda _columns, _part: {})
    rows_per_unit: int = 1
    """About how many; it sizes the blocks."""
    format: Literal["arrow", "csv"] = "arrow"

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(np.dtype(kind).itemsize for kind in self.columns.values())

    @property
    def units_per_part(self) -> int:
        """Units in one block."""
        return max(1, BATCH_BYTES // (self.row_bytes * self.rows_per_unit))

    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        import pyarrow as pa

        return pa.schema([(name, arrow_type(kind)) for name, kind in self.columns.items()])


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a numpy type: `i8`, `f8`, or `S` with a width."""
    import pyarrow as pa

    plain = {"i8": pa.int64(), "f8": pa.float64()}
    return plain.get(kind) or pa.binary(int(kind[1:]))


def to_batch(columns: Mapping[str, NDArray[np.generic]], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as a record batch without a copy."""
    import pyarrow as pa

    rows = len(next(iter(columns.values())))
    arrays = [
        pa.Array.from_buffers(each.type, rows, [None, pa.py_buffer(np.ascontiguousarray(columns[each.name]))])
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def labels(words: list[str], width: int) -> NDArray[np.bytes_]:
    """Words as fixed-width bytes, to be indexed by code."""
    return np.array([word.encode().ljust(width) for word in words], dtype=f"S{width}")
