"""Figures of the catalogue, each with its source and date, and the CSV files that they are read from."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Doubt = Literal["floor", "not verified"]
"""How sources mark a figure that is none to rely on: what is listed for the like, and at least that; or told
without a page that says so."""

_MARKS: tuple[tuple[Doubt, re.Pattern[str]], ...] = (
    ("floor", re.compile(r"(^|; )floor: ")),
    ("not verified", re.compile(r"\bnot verified\b")),
)


def doubts_in(source: str) -> tuple[Doubt, ...]:
    """Return what the text of a source marks its figure with."""
    return tuple(doubt for doubt, mark in _MARKS if mark.search(source))


@dataclass(frozen=True, slots=True)
class Source:
    """Who says so, and when: `DescribeInstanceTypes via moto 5.2.5`, `2026-10`."""

    text: str
    date: str

    def __str__(self) -> str:
        return f"{self.text}, {self.date}"


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A rate that somebody measured, kept beside the listed one.

    `source` is a fact id of a published paper, such as `002.t2.m5n.8xlarge`.
    """

    bytes_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of a volume type or a managed file system, as listed, with its source."""

    value: float
    unit: str
    source: Source


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
