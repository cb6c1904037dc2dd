"""One number that stands for all values of a table, whatever the order of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_MASK = (1 << 64) - 1
_MIX = 0x9E3779B97F4A7C15
"""2^64 / golden ratio, odd: the multiplier of Fibonacci hashing (Knuth, TAOCP 6.4)."""


class Checksum:
    """Sums a hash of each row modulo 2^64: a changed value, or values swapped between rows, show."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, columns: Sequence[NDArray[np.generic]]) -> None:
        """Take rows, as columns of values of 8, 16, ... bytes each, in the order of the schema."""
        if not columns or not len(columns[0]):
            return
        rows = len(columns[0])
        hashes = np.zeros(rows, dtype=np.uint64)
        place = 1
        for column in columns:
            words = np.ascontiguousarray(column).view(np.uint64).reshape(rows, -1)
            for lane in range(words.shape[1]):
                hashes ^= words[:, lane]
                hashes *= np.uint64((_MIX * (2 * place + 1)) & _MASK)
                place += 1
            hashes ^= hashes >> np.uint64(29)
        self._sum = (self._sum + int(np.add.reduce(hashes, dtype=np.uint64))) & _MASK
        self.rows += rows

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a record batch."""
        self.add([column_values(column) for column in batch.columns])

    def add_mapping(self, columns: Mapping[str, NDArray[np.generic]]) -> None:
        """Take rows given as columns by name."""
        self.add(list(columns.values()))

    @property
    def value(self) -> str:
        """The checksum as 16 hex digits."""
        return f"{self._sum:016x}"


def column_values(column: pa.Array) -> NDArray[np.generic]:
    """The values of a column without nulls, of 8-byte numbers or fixed-size binary; no copy."""
    import pyarrow as pa

    width = column.type.bit_width // 8
    kinds: dict[object, str] = {pa.int64(): "<i8", pa.float64(): "<f8", pa.uint64(): "<u8"}
    kind = kinds.get(column.type, f"S{width}")
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, dtype=kind, count=len(column), offset=column.offset * width)
