"""What a planner may choose of managed offers: the smallest of each that delivers a rate and has the room."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridwright.catalog.managed import ManagedOffer, OfferPrice, offer_price
from gridwright.filesystems.offers import OnSale, SharedChoice
from gridwright.units import Bytes, format_bytes

GIB = 2**30
MOST_BYTES = 2**50
"""The largest file system that is planned of an offer that publishes no largest size."""


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """One managed offer whose throughput comes with its capacity, at its list price.

    Rates are lasting, and hold for reads and for writes, each alone.
    """

    offer: ManagedOffer
    price: OfferPrice
    by_capacity: float
    managed: bool = True
    durable: bool = True

    @property
    def most(self) -> str:
        """The largest that is on sale, or that is tried."""
        return f"{format_bytes(self._largest)} of {self.offer.name}"

    @property
    def _largest(self) -> int:
        return int(self.offer.figure("capacity_max") or MOST_BYTES)

    @property
    def _cap(self) -> float:
        """What one file system delivers in both directions, whatever its size; infinite where nobody says."""
        return min(self.offer.figure("read") or math.inf, self.offer.figure("write") or math.inf)

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The smallest capacity on sale that delivers the rate and has the room."""
        # A rate that a size delivers exactly is not missed for the last bit of a division.
        wanted = max(capacity_bytes, bytes_per_s / self.by_capacity * (1 - 1e-12), 1)
        size = self._size(wanted)
        if bytes_per_s > self._cap or size > self._largest:
            return None
        name, words = self.offer.name, str(Bytes(size))
        return SharedChoice(
            name,
            f"{name} {words}",
            min(self.by_capacity * size, self._cap),
            size,
            self.price.usd_per_hour(size, 0),
            managed=self.managed,
            durable=self.durable,
            plain={"type": "managed", "offer": name, "capacity": words},
            fixed_because=self._fixed_because,
        )

    def _size(self, wanted: float) -> int:
        """The smallest size on sale from `wanted` bytes on; whole GiB where no step is published."""
        figure = self.offer.figure
        step = figure("capacity_step") or figure("pool_step") or GIB
        return int(math.ceil(max(wanted, figure("capacity_min") or 0) / step) * step)

    @property
    def _fixed_because(self) -> str:
        fixed = self.offer.facts.get("capacity_fixed")
        return f"the size of {self.offer.name} never changes, says {fixed.source}" if fixed else ""


def service_offers(on_sale: OnSale) -> list[ServiceOffer]:
    """Every offer of the provider whose throughput and price go by its capacity."""
    found = []
    for name, offer in on_sale.catalog.offers.items():
        if offer.provider != on_sale.services_of:
            continue
        price = offer_price(offer, on_sale.catalog.offer_prices[name], on_sale.region)
        each = offer.figure("by_capacity")
        if price is not None and price.is_whole and each:
            found.append(ServiceOffer(offer, price, each))
    return found
