"""Prices of storage by region, and the one error for a price that is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridwright.catalog.prices import HOME, Price, scaled
from gridwright.errors import GridwrightError, input_error, nearest

GIB = 2**30
"""Providers bill storage by the GiB and call it GB."""

Ratio = Callable[[str], float | None]
"""What a region asks relative to us-east-1; None where that is not known."""


def no_ratio(_: str) -> float | None:
    """Nothing is known of any region."""
    return None


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """USD per month of one item, by region and component.

    `by_region["us-east-1"]["capacity"]` is USD per GiB and month. Prices that hold in every region
    stand under the empty name. A region without a price of its own is estimated: what instances cost there
    relative to us-east-1 (`ratio`), times the price in us-east-1.
    """

    item: str
    by_region: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    ratio: Ratio = no_ratio

    def regions(self) -> tuple[str, ...]:
        """Regions with prices; empty when one price holds everywhere."""
        return tuple(sorted(region for region in self.by_region if region))

    def known(self, component: str, region: str) -> Price | None:
        """Price of one component in `region`, listed or estimated; None where none is known."""
        own = self.by_region.get(region, {}).get(component)
        return own or self.by_region.get("", {}).get(component) or self._estimate(component, region)

    def _estimate(self, component: str, region: str) -> Price | None:
        home = self.by_region.get(HOME, {}).get(component)
        ratio = self.ratio(region) if home else None
        return scaled(home, ratio) if home and ratio else None

    def components(self) -> tuple[str, ...]:
        """What has a price in any region, in alphabetical order."""
        return tuple(sorted({name for prices in self.by_region.values() for name in prices}))

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
