"""Margins of error of predictions, by what binds: how far the model was off the papers' figures.

`data/margins.csv` is made by `python tools/margins.py` out of the comparison that docs/papers.md prints.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, cast, get_args

from gridwright.filesystems.resources import Nature

Kind = Literal[Nature, "burst", "workload", "all"]
"""What a published figure was bound by, of those that last; `burst` has those of bursts, `workload` CPU/real
ratios, and `all` every rate that lasts."""
KINDS: tuple[Kind, ...] = (*get_args(Nature), "burst", "workload", "all")


@dataclass(frozen=True, slots=True)
class Margin:
    """Absolute errors of so many predictions, relative to what was published.

    `p90` is what nine tenths of them do not exceed.
    """

    kind: Kind
    count: int
    median: float
    p90: float

    def low(self, predicted: float) -> float:
        """The least that a prediction may turn out to be: an error is (predicted / real) - 1."""
        return predicted / (1 + self.p90)

    def high(self, predicted: float) -> float:
        """The most that it may turn out to be."""
        return predicted / (1 - self.p90) if self.p90 < 1 else float("inf")


@cache
def margins() -> Mapping[Kind, Margin]:
    """The margin of each kind of which something was published."""
    text = resources.files("gridwright.model").joinpath("data/margins.csv").read_text("utf-8")
    return {
        (kind := cast(Kind, row["kind"])): Margin(
            kind, int(row["count"]), float(row["median"]), float(row["p90"])
        )
        for row in csv.DictReader(text.splitlines())
    }


def margin_of(kind: Kind) -> Margin:
    """The margin of a kind; that of all rates where nothing was published of it."""
    found = margins()
    return found.get(kind) or found["all"]
