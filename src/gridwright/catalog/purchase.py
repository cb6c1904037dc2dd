"""What an instance costs where it is not bought on demand, as a part of its price on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from gridwright.catalog.facts import Source
from gridwright.catalog.tables import optional, rows, source

PurchaseOption = Literal["one-year", "one-year-upfront", "three-years", "three-years-upfront", "spot"]
PURCHASE_OPTIONS: tuple[PurchaseOption, ...] = get_args(PurchaseOption)
PURCHASE_COLUMNS = (
    "name",
    "one_year",
    "one_year_upfront",
    "three_years",
    "three_years_upfront",
    "spot",
    "spot_interrupted",
    "source",
    "date",
)


@dataclass(frozen=True, slots=True)
class PurchaseFactors:
    """Prices of one instance type by option, over its price on demand in the same list and region.

    Years are standard reserved instances, paid by the hour or all at the start (then spread over the term);
    `spot` is the mean over the zones of the region on one day. `spot_interrupted` says how often spot
    instances were taken away within a month, as AWS publishes it, such as `>20%`; empty where it does not.
    """

    factors: Mapping[PurchaseOption, float]
    spot_interrupted: str
    source: Source


@cache
def purchase_factors() -> dict[str, PurchaseFactors]:
    """Return the factors of each EC2 type that the list has them of."""
    found = {}
    for name, *figures, interrupted, text, date in rows("purchase.csv", PURCHASE_COLUMNS):
        factors = {
            option: factor
            for option, figure in zip(PURCHASE_OPTIONS, figures, strict=True)
            if (factor := optional(figure)) is not None
        }
        found[name] = PurchaseFactors(factors, interrupted, source(text, date))
    return found
