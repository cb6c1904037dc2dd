"""What libraries require when they are busy at the same time: the one rule that every command goes by."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gridwright.spec.model import GridSpec
from gridwright.units import format_rate


@dataclass(frozen=True, slots=True)
class PeakFactor:
    """The part of the sum of all libraries' rates that must be there at the same time, and who says so."""

    value: float
    source: str

    def required(self, rates: Collection[float]) -> float:
        """What must be there for libraries that share a resource, in the unit of their rates.

        The largest rate of a single library, or this part of their sum, whichever is larger.
        """
        return max(max(rates, default=0.0), self.value * sum(rates) if len(rates) > 1 else 0.0)

    @property
    def reason(self) -> str:
        """Why it is this part, in words."""
        return "all may peak together" if self.value >= 1 else "they do not all peak together"


@cache
def published_peak_factor() -> PeakFactor:
    """The factor of a spec that states none, from data/peak_factor.csv."""
    text = resources.files("gridwright.spec").joinpath("data/peak_factor.csv").read_text("utf-8")
    (row,) = csv.DictReader(text.splitlines())
    return PeakFactor(float(row["factor"]), row["source"])


def peak_factor_of(spec: GridSpec) -> PeakFactor:
    """The factor that a spec states, or the published one."""
    stated = spec.requirements.peak_factor if spec.requirements else None
    return published_peak_factor() if stated is None else PeakFactor(stated, "the grid spec")


def required_at_once(spec: GridSpec, rates: Collection[float]) -> str:
    """What libraries with these rates per core need of disks they share, and why, in words."""
    factor = peak_factor_of(spec)
    required = format_rate(factor.required(rates), per_core=True)
    if factor.required(rates) > factor.value * sum(rates):
        return f"{required}, what the fastest of them requires alone"
    return f"{required}, {factor.value:.3g} of the sum of their rates: {factor.reason}"
