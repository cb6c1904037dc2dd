"""Types of fields that only FSx for Lustre has."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Annotated

from gridwright.units import SIZE_PATTERN, TEBIBYTE_RATE_PATTERN, Bytes, Rate, UnitError
from gridwright.yamltext.fields import Written, read_size, read_total_rate
from gridwright.yamltext.source import show

FSX_STEP_GIB = 1200
"""AWS sells FSx for Lustre in multiples of it (CreateFileSystem API reference, StorageCapacity)."""


def _tebibyte_rate(value: object) -> int:
    """Whole bytes per second for each TiB."""
    example = "write what each TiB delivers, such as 200 MB/s/TiB"
    text = value.strip() if isinstance(value, str) else ""
    rate, slash, unit = text.rpartition("/")
    if not slash or unit.strip() != "TiB":
        raise UnitError(f"{show(value)} is not a rate per TiB", example)
    return read_total_rate(rate).bytes_per_s


def _fsx_capacity(value: object) -> Bytes:
    """A size, where `2.4 TiB` is what AWS calls 2400 GiB.

    AWS sells FSx for Lustre in GiB and names sizes in TiB of 1000 GiB; nothing that it sells is a
    whole number of real TiB below 75, so the two are not confused.
    """
    text = value.strip() if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*TiB", text, re.ASCII)
    if found and (Fraction(found[1]) * 1000) % FSX_STEP_GIB == 0 and Fraction(found[1]) > 0:
        return Bytes(Fraction(found[1]) * 1000 * 2**30)
    # What lies between two steps is refused with both of them where the catalogue is known.
    return Bytes(math.ceil(Fraction(found[1]) * 2**40)) if found else read_size(value)


def _capacity_text(size: Bytes) -> str:
    return f"{size // 2**30} GiB" if size % 2**30 == 0 else str(size)


TebibyteRate = Annotated[
    int,
    Written(_tebibyte_rate, TEBIBYTE_RATE_PATTERN, "200 MB/s/TiB", lambda rate: f"{Rate(rate)}/TiB"),
]
"""Bytes per second that each TiB of a file system delivers."""

FsxCapacity = Annotated[Bytes, Written(_fsx_capacity, SIZE_PATTERN, "2400 GiB", _capacity_text)]
"""Storage capacity of FSx for Lustre: 2400 GiB, or 2.4 TiB as AWS calls it."""
