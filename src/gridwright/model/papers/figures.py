"""The published figures that the model is compared with, from data/papers/.

`figures.csv` has a row for each figure as it was printed, `configurations.csv` the grid it was measured
on, `reasons.csv` what is known of a miss, `advice.csv` what of the papers is not to be copied.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, cast

from gridwright.spec import GridSpec, parse_spec

Role = Literal["check", "context"]
"""`check`: predicted without knowing it; `context`: not counted, because it repeats another figure or is
none that a grid's description could tell."""
Unit = Literal["bytes/s", "bytes", "ratio", "s"]

PAPERS: Mapping[str, str] = {
    "000": "SAS Grid on AWS with Intel Cloud Edition for Lustre, 2015",
    "001": "companion article of 000, 2015",
    "002": "FSx for Lustre, paper 4632-2020",
    "003": "Oracle Cloud with IBM Spectrum Scale, 2020",
    "004": "Intel reference architecture for Lustre on AWS, 2015",
}

_UNITS: Mapping[str, tuple[float, Unit]] = {
    "MB/s": (1e6, "bytes/s"),
    "GB/s": (1e9, "bytes/s"),
    "MiB/s": (2.0**20, "bytes/s"),
    "B": (1.0, "bytes"),
    "GB": (1e9, "bytes"),
    "GiB": (2.0**30, "bytes"),
    "ratio": (1.0, "ratio"),
    "min": (60.0, "s"),
}


@dataclass(frozen=True, slots=True)
class PaperConfiguration:
    """A grid that a paper tested.

    `spec` is the file of its grid spec, empty where the paper does not describe enough for one; `note`
    says why, or what was assumed. `streams_per_node` is None where the paper does not say.
    """

    name: str
    spec: str
    streams_per_node: int | None
    note: str


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure as it was printed, and how it is predicted.

    `how` is the kind of prediction (a key of `predicted`), `target` the instance type, family or matrix
    that it is for, `per` what the figure is of: grid, node, core, stream or server.
    """

    fact_id: str
    configuration: str
    quantity: str
    printed: str
    printed_unit: str
    how: str
    target: str
    library: str
    operation: str
    per: str
    role: Role
    reason: str

    @property
    def paper(self) -> str:
        """The paper's number: the first part of the fact id."""
        return self.fact_id.partition(".")[0]

    @property
    def value(self) -> float:
        """The figure in `unit`."""
        return float(self.printed) * _UNITS[self.printed_unit][0]

    @property
    def unit(self) -> Unit:
        """Of `value`."""
        return _UNITS[self.printed_unit][1]


@dataclass(frozen=True, slots=True)
class Advice:
    """Something printed in a paper that is not to be copied, and what to do instead."""

    paper: str
    printed: str
    instead: str


def _rows(name: str) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(_text(name).splitlines())


def _text(name: str) -> str:
    return resources.files("gridwright.model").joinpath("data", "papers", name).read_text("utf-8")


@cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """All figures, in the order of the papers."""
    return tuple(
        PublishedFigure(
            row["fact_id"],
            row["configuration"],
            row["quantity"],
            row["printed"],
            row["unit"],
            row["how"],
            row["target"],
            row["library"],
            row["operation"],
            row["per"],
            cast(Role, row["role"]),
            row["reason"],
        )
        for row in _rows("figures.csv")
    )


@cache
def configurations() -> Mapping[str, PaperConfiguration]:
    """Every configuration that the papers tested, by name."""
    return {
        row["configuration"]: PaperConfiguration(
            row["configuration"],
            row["spec"],
            int(row["streams_per_node"]) if row["streams_per_node"] else None,
            row["note"],
        )
        for row in _rows("configurations.csv")
    }


@cache
def reasons() -> Mapping[str, str]:
    """What is known of a figure that is missed, not predicted, or not counted, by key."""
    return {row["reason"]: row["text"] for row in _rows("reasons.csv")}


@cache
def advice() -> tuple[Advice, ...]:
    """What not to copy, in the order of the papers."""
    return tuple(Advice(row["paper"], row["printed"], row["instead"]) for row in _rows("advice.csv"))


@cache
def paper_spec(name: str) -> GridSpec:
    """The grid spec of a configuration by its file name; the same files are in examples/papers."""
    return parse_spec(_text(name), f"examples/papers/{name}")
