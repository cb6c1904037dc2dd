"""Which ranges of a file that is a name only are here already: kept with the file, in an extended attribute.

A file is cut into chunks, and one bit says for each that its content was made durable before the bit was. A
range of zeros of the object is thus never mistaken for one that was not loaded, whatever holes the file has.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from dataclasses import dataclass

from gridwright.repository.references import ObjectReference

SMALLEST_CHUNK = 1 << 20
MOST_CHUNKS = 16_384
"""2 KiB of bits: ext4 keeps all attributes of a file in one block of 4 KiB."""
_FORMAT = 1
_HEADER = struct.Struct("<BxxxI8sQq")
_NO_TIME = -(2**63)


class DamagedRanges(ValueError):
    """The attribute is there and cannot be read, or is that of another object."""


def chunk_bytes(size: int) -> int:
    """Bytes of a chunk of an object of this size: 1 MiB up to 16 GiB, then the power of two that suffices."""
    chunk = SMALLEST_CHUNK
    while chunk * MOST_CHUNKS < size:
        chunk *= 2
    return chunk


@dataclass(slots=True)
class LoadedRanges:
    """Which chunks are here.

    Bytes from `limit` on are the user's own, since the file was cut there once. `mtime_ns` is set while
    content is written: the time to give back to the file if that is interrupted.
    """

    chunk: int
    limit: int
    here: bytearray
    mtime_ns: int | None = None

    @classmethod
    def none_of(cls, size: int) -> LoadedRanges:
        """Nothing of an object of `size` bytes is here."""
        chunk = chunk_bytes(size)
        return cls(chunk, size, bytearray((-(-size // chunk) + 7) // 8))

    @property
    def chunks(self) -> int:
        """How many chunks there are to load in all."""
        return -(-self.limit // self.chunk)

    def has(self, number: int) -> bool:
        """Whether a chunk is here."""
        return bool(self.here[number >> 3] >> (number & 7) & 1)

    def add(self, first: int, count: int) -> None:
        """Note that chunks are here."""
        for number in range(first, first + count):
            self.here[number >> 3] |= 1 << (number & 7)

    def missing(self, offset: int, count: int) -> list[int]:
        """The chunks of a range that are not here; a range of no bytes reaches to the end."""
        end = min(offset + count, self.limit) if count else self.limit
        if offset >= end:
            return []
        return [
            number for number in range(offset // self.chunk, -(-end // self.chunk)) if not self.has(number)
        ]

    @property
    def is_complete(self) -> bool:
        """Whether all is here."""
        whole, rest = divmod(self.chunks, 8)
        return self.here[:whole] == b"\xff" * whole and all(
            self.has(whole * 8 + number) for number in range(rest)
        )

    def bytes_of(self, first: int, count: int) -> tuple[int, int]:
        """Offset and length of chunks that follow each other."""
        start = first * self.chunk
        return start, min((first + count) * self.chunk, self.limit) - start


def attribute_name() -> str:
    """The name of the attribute; only root loads."""
    return "trusted.gridwright.loaded"


def encode(ranges: LoadedRanges, reference: ObjectReference) -> bytes:
    """The value of the attribute, which holds for this very object only."""
    time = _NO_TIME if ranges.mtime_ns is None else ranges.mtime_ns
    shift = ranges.chunk.bit_length() - 1
    return _HEADER.pack(_FORMAT, shift, _digest(reference), ranges.limit, time) + ranges.here


def decode(value: bytes, reference: ObjectReference) -> LoadedRanges:
    """What a value of the attribute says of the file of this object. Raises DamagedRanges."""
    if len(value) < _HEADER.size or value[0] != _FORMAT:
        raise DamagedRanges("what was loaded of it cannot be read: it is damaged, or of a newer release")
    _, shift, digest, limit, time = _HEADER.unpack_from(value)
    if digest != _digest(reference):
        raise DamagedRanges("what was loaded of it belongs to another object")
    ranges = LoadedRanges.none_of(reference.size)
    here = bytearray(value[_HEADER.size :])
    if 1 << shift != ranges.chunk or len(here) != len(ranges.here) or limit > reference.size:
        raise DamagedRanges("what was loaded of it does not fit its size")
    return LoadedRanges(ranges.chunk, limit, here, None if time == _NO_TIME else time)


def read_ranges(descriptor: int, reference: ObjectReference) -> LoadedRanges:
    """What of a file that is a name only is here. Raises OSError, and DamagedRanges."""
    try:
        value = os.getxattr(descriptor, attribute_name())
    except OSError as error:
        if error.errno == errno.ENODATA:
            return LoadedRanges.none_of(reference.size)
        raise
    return decode(value, reference)


def write_ranges(descriptor: int, ranges: LoadedRanges, reference: ObjectReference) -> None:
    """Keep it with the file. Raises OSError."""
    os.setxattr(descriptor, attribute_name(), encode(ranges, reference))


def clear_ranges(descriptor: int) -> None:
    """Nothing is kept any more; done where nothing was. Raises OSError."""
    try:
        os.removexattr(descriptor, attribute_name())
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise


def _digest(reference: ObjectReference) -> bytes:
    # The key may change with a rename; ETag and size are what says which content it is.
    return hashlib.sha256(f"{reference.etag} {reference.size}".encode()).digest()[:8]
