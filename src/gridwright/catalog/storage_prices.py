"""Prices of storage by region, and the one error for a price that is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.catalog.prices import Price
from gridwright.errors import GridwrightError, input_error, nearest

GIB = 2**30
"""Providers bill storage by the GiB and call it GB."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """USD per month of one item, by region and component.

    `by_region["us-east-1"]["capacity"]` is USD per GiB and month. Prices that hold in every region
    stand under the empty name.
    """

    item: str
    by_region: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)

    def regions(self) -> tuple[str, ...]:
        """Regions with prices; empty when one price holds everywhere."""
        return tuple(sorted(region for region in self.by_region if region))

    def known(self, component: str, region: str) -> Price | None:
        """Price of one component in `region`; None where none is known."""
        own = self.by_region.get(region, {}).get(component)
        return own or self.by_region.get("", {}).get(component)

    def of(self, component: str, region: str) -> Price:
        """Price of one component in `region`.

        Raises GridwrightError where none is known: it names the nearest region that has one and
        how to state it.
        """
        found = self.known(component, region)
        if found is None:
            raise self.missing(component, region)
        return found

    def missing(self, component: str, region: str) -> GridwrightError:
        """Return the error for a price that nobody told the catalogue."""
        with_price = [each for each in self.regions() if component in self.by_region[each]]
        close = nearest(region, with_price) or next(iter(with_price), None)
        there = f"the nearest region with a price is {close}; " if close else "no region has one; "
        return input_error(
            f"no price of {self.item} ({component}) is known in the region {region}",
            remedy=f"{there}write yours into catalog.yaml beside the grid spec, under "
            f"prices: storage: {region}: {self.item}: {component}",
        )
