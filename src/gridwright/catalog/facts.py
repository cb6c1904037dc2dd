"""Where a figure of the catalogue comes from: every row carries a source and its date."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
