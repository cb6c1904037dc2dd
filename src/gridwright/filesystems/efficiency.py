"""How much of its limits a kind of file system delivers, from data/efficiency.csv."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from gridwright.filesystems.resources import Operation


@cache
def _factors() -> dict[tuple[str, str], tuple[float, str]]:
    text = resources.files("gridwright.filesystems").joinpath("data/efficiency.csv").read_text("utf-8")
    return {
        (row["kind"], row["operation"]): (float(row["factor"]), row["source"])
        for row in csv.DictReader(text.splitlines())
    }


def efficiency(kind: str, operation: Operation) -> tuple[float, str]:
    """The part of their listed limits that servers of this kind deliver, and its source; 1 if unknown."""
    return _factors().get((kind, operation), (1.0, ""))
