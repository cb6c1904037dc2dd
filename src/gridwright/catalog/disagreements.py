"""Where two sources of the catalogue say different figures of the same thing: both are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gridwright.catalog.facts import Source
from gridwright.catalog.tables import rows, source

DISAGREEMENT_COLUMNS = ("name", "gbit_per_s", "source", "date")
TOLERANCE = 0.01
"""Two sources disagree when their figures differ by more than this part."""

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
