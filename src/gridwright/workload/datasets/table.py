"""What a table of the data set is: its columns, how a part of it is made, its checksum, what tests expect.

numpy's own distributions may change with its release, and its exp and log with the processor. So every
draw here is a look-up in a table of quantiles, worked out once with Python's `math` and `statistics` and
rounded to nine decimals; all that follows is adding and multiplying.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_LEVELS = 1 << 16
_EXP_STEPS = 1024
_EXP_SPAN = 40


@cache
def _levels() -> list[float]:
    return [(level + 0.5) / _LEVELS for level in range(_LEVELS)]


@cache
def _normal() -> Floats:
    inverse = NormalDist().inv_cdf
    return np.array([round(inverse(p), 9) for p in _levels()])


@cache
def _logistic() -> Floats:
    return np.array([round(math.log(p / (1 - p)), 9) for p in _levels()])


@cache
def _exponential() -> Floats:
    return np.array([round(-math.log1p(-p), 9) for p in _levels()])


class Draws:
    """A stream of random numbers, named by integers: the same names give the same numbers.

    PCG64 and SeedSequence are fixed by numpy's compatibility policy (NEP 19).
    """

    def __init__(self, *names: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(list(names)))

    def words(self, count: int) -> Words:
        """Uniform 64-bit words, shape (count,)."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def uniform(self, count: int) -> Floats:
        """Uniform in [0, 1), shape (count,), in steps of 2^-53."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, bound: int, count: int) -> Integers:
        """Uniform integers in [0, bound), shape (count,); `bound` below 2^31."""
        return (((self.words(count) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def skewed(self, bound: int, count: int) -> Integers:
        """Integers in [0, bound), shape (count,): cubes of uniforms, so that 10 % take 46 % of the draws."""
        uniform = self.uniform(count)
        return (uniform * uniform * uniform * bound).astype(np.int64)

    def normal(self, count: int) -> Floats:
        """Standard normal, shape (count,)."""
        return _normal()[self._lanes(count)]

    def logistic(self, count: int) -> Floats:
        """Standard logistic, shape (count,): the error of a logit model."""
        return _logistic()[self._lanes(count)]

    def exponential(self, count: int) -> Floats:
        """Standard exponential, shape (count,)."""
        return _exponential()[self._lanes(count)]

    def with_missing(self, values: Floats, one_in: int) -> Floats:
        """The values with about one in `one_in` missing (NaN, which is how a SAS data set keeps it)."""
        return np.where(self.below(one_in, len(values)) == 0, np.nan, values)

    def _lanes(self, count: int) -> NDArray[np.uint16]:
        """Uniform 16-bit levels: four to a word."""
        return self.words(-(-count // 4)).view(np.uint16)[:count]


@cache
def _exp_tables() -> tuple[Floats, Floats]:
    whole = np.array([math.exp(n) for n in range(-_EXP_SPAN, _EXP_SPAN + 1)])
    part = np.array([round(math.exp(n / _EXP_STEPS), 12) for n in range(_EXP_STEPS)])
    return np.array([float(f"{value:.12e}") for value in whole]), part


def exp(values: Floats) -> Floats:
    """Give e to the power of values in (-40, 40), in steps of 1/1024; shape as given."""
    steps = np.floor(values * _EXP_STEPS).astype(np.int64)
    whole, part = _exp_tables()
    return whole[steps // _EXP_STEPS + _EXP_SPAN] * part[steps % _EXP_STEPS]


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
