"""Prices of what a cloud bills beside machines and storage: gateways, addresses, load balancers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.catalog.prices import HOME, Price, scaled
from gridwright.catalog.storage_prices import Ratio, no_ratio
from gridwright.catalog.tables import rows, source

_COLUMNS = ("provider", "item", "region", "usd", "unit", "source", "date")


@dataclass(frozen=True, slots=True)
class ServicePrices:
    """USD by item and region; `units` says per what, such as USD/h or USD/GB-month."""

    by_item: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    ratio: Ratio = no_ratio

    def usd(self, item: str, region: str) -> float | None:
        """Price of one unit of `item` in `region`, listed or estimated; None where none is known."""
        prices = self.by_item.get(item, {})
        if price := prices.get(region):
            return price.usd
        home, ratio = prices.get(HOME), self.ratio(region)
        return scaled(home, ratio).usd if home and ratio else None


def read_service_prices(own: Mapping[str, Mapping[str, Price]], ratio: Ratio = no_ratio) -> ServicePrices:
    """The packaged prices, with the user's `own[region][item]` before them."""
    found: dict[str, dict[str, Price]] = {}
    units: dict[str, str] = {}
    for _, item, region, usd, unit, text, date in rows("cloud-prices.csv", _COLUMNS):
        found.setdefault(item, {})[region] = Price(float(usd), source(text, date))
        units[item] = unit
    for region, prices in own.items():
        for item, price in prices.items():
            found[item][region] = price
    return ServicePrices(found, units, ratio)
