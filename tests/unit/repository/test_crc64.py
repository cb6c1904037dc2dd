"""CRC-64/NVME: as its definition has it, of whatever pieces."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright.repository.store import crc64, crc64_of_pieces

_REFLECTED = 0x9A6C9329AC4BC9B5
"""The polynomial of NVM Express, from its lowest bit on."""


def by_bits(data: bytes) -> int:
    """The CRC, bit by bit: NVM Command Set Specification 1.0, figure "64b CRC Polynomials"."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_REFLECTED if crc & 1 else 0)
    return crc ^ (1 << 64) - 1


def test_its_check_value() -> None:
    assert crc64(b"123456789") == 0xAE8B14860A799888


@given(st.lists(st.binary(max_size=600), max_size=5))
@example([b"", b"x", b""])
@example([b"\0" * 4096, b"\xff" * 700])
def test_pieces_one_after_the_other_and_put_together_are_the_whole(pieces: list[bytes]) -> None:
    whole, after, sums, at = by_bits(b"".join(pieces)), 0, {}, 0
    for piece in pieces:
        after = crc64(memoryview(bytearray(piece)), after)
        if piece:
            sums[at] = (crc64(piece), len(piece))
            at += len(piece)
    assert after == whole
    assert crc64_of_pieces(dict(reversed(sums.items()))) == whole


def test_long_ones_and_those_that_do_not_lie_in_one_piece() -> None:
    data = bytes(range(256)) * (5 << 12)
    half = len(data) // 3
    assert crc64(data) == crc64(data[half:], crc64(data[:half]))
    with pytest.raises(BufferError, match="in one piece"):
        crc64(memoryview(data)[::2])


def test_a_store_is_asked_without_a_second_client() -> None:
    """awscrt took 8 MiB and a tenth of a second of CPU, for these checksums alone; pyOpenSSL took 10 MiB."""
    code = (
        "import sys, gridwright.repository.s3.s3_store;"
        "from gridwright.repository.s3.connection import connect;"
        "connect('bucket', endpoint_url='http://127.0.0.1:1');"
        "assert not {'awscrt', 'OpenSSL', 'cryptography'} & set(sys.modules)"
    )
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
