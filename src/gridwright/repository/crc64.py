"""CRC-64/NVME, by which stores prove what they have: of bytes, and of pieces put together."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright import _native


def crc64(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The CRC of bytes that follow others with the CRC `before`."""
    return _native.crc64(data, before)


def crc64_of_pieces(pieces: Mapping[int, tuple[int, int]]) -> int:
    """The CRC of a whole, of the CRC and the length of each piece by its place in the order."""
    whole = 0
    for number, place in enumerate(sorted(pieces)):
        # To put two together takes longer than to count some kilobytes.
        whole = _native.combine_crc64(whole, *pieces[place]) if number else pieces[place][0]
    return whole
