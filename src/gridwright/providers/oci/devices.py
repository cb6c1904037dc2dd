"""Device paths of block volumes, the same on each server that attaches one (OCI, consistent device paths)."""

from __future__ import annotations

DEVICE_LETTERS = (*(f"{chr(each)}" for each in range(ord("b"), ord("z") + 1)), *(f"a{c}" for c in "abcdefg"))
"""Ends of the consistent device paths: 32 of them, from oraclevdb to oraclevdag (facts oci-scale)."""


def device(index: int) -> str:
    """The path of the volume with this number on each server that attaches it."""
    return f"/dev/oracleoci/oraclevd{DEVICE_LETTERS[index % len(DEVICE_LETTERS)]}"
