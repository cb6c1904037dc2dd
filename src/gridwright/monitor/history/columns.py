"""Figures of many series over the same steps, and the bytes that they are kept as.

All series of one metric are one piece: what is asked for is read alone, and alike figures are packed better.
Values are float32. Those of counters keep 12 bits of their mantissa: an error of at most 1 part in 4096
each time, which the means of four levels after one another make 1 in 1000.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Labels = tuple[str, ...]
UNKNOWN = math.nan
_HEAD = struct.Struct("<BBHII")
"""Format, flags, steps, series, bytes of the labels."""
_FORMAT = 1
_ROUNDED, _HIGHS, _GAPS = 1, 2, 4
_HALF, _MASK = 0x800, 0xFFFFF000
"""Rounds to the nearest value of 12 bits of mantissa, the implicit one included."""
_LARGEST = 0x7F7FF000
"""A finite float32 that may still be rounded."""
_PACKING = 6


class SpoiltPiece(ValueError):
    """Bytes that are no figures: a disk gave back something else than what was written."""


@dataclass(slots=True)
class BlockColumn:
    """One series over the steps of a block."""

    mean: array[float]
    """Over the time that is known; NaN where nothing is."""
    high: array[float]
    """The highest of the samples; the very same array as `mean` at the finest level."""
    covered: array[int] | None
    """Seconds that are known of each step; None where each is known in whole, or not at all."""


def encode(columns: Mapping[Labels, BlockColumn], steps: int, *, rounded: bool) -> bytes:
    """The series of one metric as bytes."""
    names = json.dumps(list(columns), separators=(",", ":")).encode()
    highs = any(column.high is not column.mean for column in columns.values())
    gaps = any(column.covered is not None for column in columns.values())
    flags = _ROUNDED * rounded | _HIGHS * highs | _GAPS * gaps
    parts = [names, _planes([column.mean for column in columns.values()], rounded=rounded)]
    if highs:
        parts.append(_planes([column.high for column in columns.values()], rounded=rounded))
    if gaps:
        covered = [column.covered for column in columns.values()]
        parts.append(_bytes_of(array("H", (n for each in covered for n in each or [_WHOLE] * steps))))
    head = _HEAD.pack(_FORMAT, flags, steps, len(columns), len(names))
    return head + zlib.compress(b"".join(parts), _PACKING)


_WHOLE = 0xFFFF
"""Written for a series that is covered in whole, beside others that are not."""


def decode(data: bytes) -> dict[Labels, BlockColumn]:
    """The series that `encode` was given. Raises SpoiltPiece."""
    try:
        form, flags, steps, series, length = _HEAD.unpack_from(data)
        if form != _FORMAT:
            raise SpoiltPiece(f"format {form} is not known")
        body = zlib.decompress(memoryview(data)[_HEAD.size :])
        names = [tuple(load) for load in json.loads(body[:length])]
        size = steps * series
        width = 3 if flags & _ROUNDED else 4
        mean = _unplaned(body[length : length + size * width], size, width)
        end = length + size * width
        high = mean
        if flags & _HIGHS:
            high = _unplaned(body[end : end + size * width], size, width)
            end += size * width
        covered = _numbers("H", body[end : end + 2 * size]) if flags & _GAPS else None
        whole = len(names) == series and (covered is None or len(covered) == size)
    except (struct.error, zlib.error, ValueError, TypeError, RecursionError) as error:
        raise SpoiltPiece(str(error)) from error
    if not whole:
        raise SpoiltPiece("it is too short")
    return {name: _column(mean, high, covered, number * steps, steps) for number, name in enumerate(names)}


def _column(
    mean: array[float], high: array[float], covered: array[int] | None, start: int, steps: int
) -> BlockColumn:
    part = slice(start, start + steps)
    own = mean[part]
    seconds = None if covered is None or covered[start] == _WHOLE else covered[part]
    return BlockColumn(own, own if high is mean else high[part], seconds)


def _planes(values: Sequence[array[float]], *, rounded: bool) -> bytes:
    """Bytes by their weight, the heaviest first: those are alike, and packed to almost nothing."""
    together = array("f")
    for value in values:
        together.extend(value)
    data = _bytes_of(_rounded(together) if rounded else together)
    return b"".join(data[weight::4] for weight in ((3, 2, 1) if rounded else (3, 2, 1, 0)))


def _rounded(values: array[float]) -> array[int]:
    bits = array("I", values.tobytes())
    return array("I", [(n + _HALF) & _MASK if n & 0x7FFFFFFF < _LARGEST else n & _MASK for n in bits])


def _unplaned(data: bytes, size: int, width: int) -> array[float]:
    if len(data) != size * width:
        raise SpoiltPiece("it is too short")
    found = bytearray(4 * size)
    for plane in range(width):
        found[3 - plane :: 4] = data[plane * size : (plane + 1) * size]
    return _numbers("f", bytes(found))


def _bytes_of(values: array[float] | array[int]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _numbers(kind: str, data: bytes) -> array:  # type: ignore[type-arg]
    found = array(kind, data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
