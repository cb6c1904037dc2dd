"""Reads the CSV files of the package by column name, quickly, and names a file that is damaged."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gridwright.catalog.facts import Source

DATA = Path(__file__).parent / "data"


def rows(name: str, columns: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the rows of one file, cells in the order of `columns`.

    The files are part of the package and tests read all of them, so a wrong header is a defect
    and raises ValueError.
    """
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        head = tuple(next(reader))
        if head != columns:
            raise ValueError(f"{name} has the columns {head}, and {columns} are wanted")
        yield from reader


@cache
def source(text: str, date: str) -> Source:
    """Return one Source per text and date: a thousand rows share a handful."""
    return Source(text, date)


def optional(text: str, factor: float = 1.0) -> float | None:
    """Return the figure in a cell times `factor`; None for an empty cell."""
    return float(text) * factor if text else None


RATE_UNITS: dict[str, float] = {"MB/s": 1e6, "GB/s": 1e9, "MiB/s": 2.0**20, "GiB/s": 2.0**30}
"""Units of rates in the files, in bytes per second."""


def per(unit: str) -> tuple[float, str]:
    """Split `MB/s/core` into its factor and what it is per; of the whole when it names nothing."""
    amount, _, divisor = unit.partition("/s")
    return RATE_UNITS[f"{amount}/s"], divisor.removeprefix("/")
