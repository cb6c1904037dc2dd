"""Where two sources of the catalogue say different figures of the same thing: both are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gridwright.catalog.facts import Source
from gridwright.catalog.tables import rows, source

DISAGREEMENT_COLUMNS = ("name", "gbit_per_s", "source", "date")
TOLERANCE = 0.01
"""Two sources disagree when their figures differ by more than this part."""

PART = 0.9
"""The part of the disagreements that is used, as of the errors of predictions."""

_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class OtherFigure:
    """What another source says of an instance's network, in bytes per second in each direction."""

    bytes_per_s: float
    source: Source


@cache
def networks_elsewhere() -> dict[str, OtherFigure]:
    """Return the figures that differ from those of the catalogue, by instance type."""
    return {
        name: OtherFigure(float(gbit) * _GBIT, source(text, date))
        for name, gbit, text, date in rows("network-elsewhere.csv", DISAGREEMENT_COLUMNS)
    }


def disagreement_factor(listed: Mapping[str, float]) -> float:
    """Return by which factor two sources differ at most on nine in ten of the types they differ on.

    `listed` has the catalogue's own figure of each type, in bytes per second. Either may be the larger.
    """
    factors = sorted(
        max(other.bytes_per_s / listed[name], listed[name] / other.bytes_per_s)
        for name, other in networks_elsewhere().items()
    )
    return factors[math.ceil(PART * len(factors)) - 1]
