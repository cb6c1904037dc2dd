"""What a plan consists of: designs with their predicted rates and costs, and why others are worse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridwright.catalog.basis import PriceBasis
from gridwright.catalog.contents import Catalog
from gridwright.catalog.prices import Price
from gridwright.errors import Finding
from gridwright.filesystems.offers import Growth
from gridwright.model.prediction import Prediction
from gridwright.spec.model import GridSpec


def price_dates(catalog: Catalog, instances: Iterable[str], region: str) -> str:
    """The date of the prices of instance types by their names, and of storage beside them, in a region.

    One date such as `2026-10`, or `2026-02 to 2026-10` from the oldest on; empty where none is known.
    """
    names = set(instances)
    dates = {
        price.source.date for price in _prices(catalog, names, region) if price.source.date[:1].isdigit()
    }
    return " to ".join(dict.fromkeys((min(dates), max(dates)))) if dates else ""


def _prices(catalog: Catalog, names: set[str], region: str) -> Iterator[Price]:
    types = [catalog.instances[name] for name in names if name in catalog.instances]
    for instance in types:
        if found := catalog.prices.price(instance, region):
            yield found
    providers = {instance.provider for instance in types}
    for volume in catalog.volumes.values():
        if volume.provider in providers:
            yield from {
                **volume.prices.by_region.get("", {}),
                **volume.prices.by_region.get(region, {}),
            }.values()


Fits = Literal["yes", "no", "open", "alternative"]
"""`alternative`: it misses, and another way that fits makes it unnecessary. `open`: not judged."""


@dataclass(frozen=True, slots=True)
class RequirementReading:
    """One requirement as the planner reads it: `what`, its value in words, and where it comes from."""

    what: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class DesignGrowth:
    """What a design costs after 12 months, and on the mean of them, in USD per hour.

    `filesystems` are the new ones that need more room then, by name.
    """

    usd_per_hour_later: float
    usd_per_hour_mean: float
    filesystems: Mapping[str, Growth]


@dataclass(frozen=True, slots=True)
class Design:
    """A candidate grid.

    `spec` is a whole grid spec that `check` and `predict` accept, and `prediction` what predict says of it.
    `bytes_per_s_per_core` is the smallest lasting rate of any library in either direction.
    `resilience` counts from 0 to 4 what survives, and `survives` says it in words. `front`: no other
    design is at least as good in cost, rate and resilience and better in one. With `growth` libraries need
    more room in a year, and `usd_per_hour` is what the design costs until then.
    """

    title: str
    spec: GridSpec
    prediction: Prediction
    usd_per_hour: float
    bytes_per_s_per_core: float
    resilience: int
    survives: str
    front: bool = False
    growth: DesignGrowth | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A design beside the cheapest one, and why it is no better: parts of the cost, and what forces them."""

    title: str
    change: str
    why: str
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """One requirement held against one instance type: provided, required, and whether it fits."""

    requirement: str
    provided: str
    required: str
    fits: Fits


@dataclass(frozen=True, slots=True)
class DesignExplanation:
    """An instance type held against every requirement, and the cheapest design with it."""

    instance: str
    fits: tuple[Fit, ...]
    cheapest: Design | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranked designs, cheapest first. `considered` counts the candidates that were costed.

    Without a design, `impossible` names what binds and the nearest possible value. `prices_of` are the
    months that prices of what the designs consist of were listed in, such as `2026-10`. `without_price` names
    the types that could be nodes and are left out since no price of them is known; `findings` say what
    to know of the prices, and `basis` from when all those searched are. `kept` are the parts of the spec that
    every design has, such as `filesystems.shared`; neighbours without one of them may be cheaper.
    """

    grid: str
    readings: tuple[RequirementReading, ...]
    designs: tuple[Design, ...]
    neighbours: tuple[Neighbour, ...] = ()
    considered: int = 0
    seconds: float = 0.0
    impossible: tuple[str, ...] = ()
    explanation: DesignExplanation | None = field(default=None)
    region: str = ""
    prices_of: str = ""
    without_price: tuple[str, ...] = ()
    basis: PriceBasis | None = None
    findings: tuple[Finding, ...] = ()
    kept: tuple[str, ...] = ()
