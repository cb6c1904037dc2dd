"""CRC-64/NVME, by which stores prove what they have: of bytes, and of pieces put together."""

from __future__ import annotations

from collections.abc import Mapping


def crc64(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The CRC of bytes that follow others with the CRC `before`."""
    from awscrt.checksums import crc64nvme

    return int(crc64nvme(data, before))


def crc64_of_pieces(pieces: Mapping[int, tuple[int, int]]) -> int:
    """The CRC of a whole, of the CRC and the length of each piece by its place in the order."""
    from awscrt.checksums import combine_crc64nvme

    whole = 0
    for place in sorted(pieces):
        whole = combine_crc64nvme(whole, *pieces[place])
    return whole
