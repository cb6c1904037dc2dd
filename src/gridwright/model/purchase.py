"""What the same grid costs where its instances are bought otherwise than on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.catalog.instances import PURCHASE_OPTIONS, PurchaseOption, purchase_factors
from gridwright.filesystems.resources import Cost


@dataclass(frozen=True, slots=True)
class Purchase:
    """The whole grid in USD per hour with one way to buy what can be bought so.

    `part` is that by the price on demand. `instances` are types that were counted with their factor, and
    `at_list_price` those of which the source has none, or that may not be taken away; all else (volumes,
    services) stays as it is. `interrupted` says for each spot type how often AWS took some away in a month.
    """

    option: PurchaseOption
    usd_per_hour: float
    part: float
    instances: tuple[str, ...]
    at_list_price: tuple[str, ...]
    interrupted: tuple[str, ...]
    source: str


def purchases(costs: Sequence[Cost]) -> tuple[Purchase, ...]:
    """The same bill by each way to buy that changes it; none where a price is not known."""
    found = (_bought(costs, option) for option in PURCHASE_OPTIONS)
    return tuple(each for each in found if each is not None)


def _bought(costs: Sequence[Cost], option: PurchaseOption) -> Purchase | None:
    known = purchase_factors()
    total, whole = 0.0, 0.0
    counted: dict[str, str] = {}
    left: dict[str, None] = {}
    sources: dict[str, None] = {}
    for cost in costs:
        if cost.usd_per_hour is None:
            return None
        whole += cost.usd_per_hour
        factors = known.get(cost.instance)
        factor = factors.factors.get(option) if factors else None
        if factors is None or factor is None or (option == "spot" and not cost.may_be_spot):
            total += cost.usd_per_hour
            if cost.instance:
                left[cost.instance] = None
            continue
        total += cost.usd_per_hour * factor
        counted[cost.instance] = f"{cost.instance} {factors.spot_interrupted or 'not told'}"
        sources[str(factors.source)] = None
    if not counted:
        return None
    interrupted = tuple(counted.values()) if option == "spot" else ()
    return Purchase(
        option, total, total / whole, tuple(counted), tuple(left), interrupted, "; ".join(sources)
    )
