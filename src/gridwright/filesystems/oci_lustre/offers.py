"""What a planner may choose of Oracle's Lustre: every tier, in the sizes that are on sale."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.catalog import ManagedOffer
from gridwright.catalog.managed import OfferPrice, offer_price
from gridwright.filesystems.oci_lustre.fields import GB, TIERS
from gridwright.filesystems.oci_lustre.sizes import least_size, offer_of
from gridwright.filesystems.offers import OnSale, SharedChoice

MOST_BYTES = 2**50
"""The largest that is planned: Oracle publishes no largest size that all tenancies have."""


@dataclass(frozen=True, slots=True)
class OciLustreOffer:
    """One tier at its list price; rate and price are linear in the capacity."""

    tier: int
    offer: ManagedOffer
    price: OfferPrice
    managed: bool = True
    durable: bool = True
    most: str = f"{MOST_BYTES // GB:,} GB of OCI Lustre"

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The smallest size on sale of this tier that delivers the rate and has the room."""
        size = least_size(self.offer, max(capacity_bytes, bytes_per_s / self._of_a_byte))
        if size > MOST_BYTES:
            return None
        gb = size // GB
        return SharedChoice(
            self.offer.name,
            f"OCI Lustre of {gb:,} GB at {self.tier} MB/s/TB",
            size * self._of_a_byte,
            size,
            self.price.usd_per_hour(size, 0),
            managed=True,
            durable=True,
            plain={"type": "oci-lustre", "capacity": f"{gb} GB", "throughput": f"{self.tier} MB/s/TB"},
        )

    @property
    def _of_a_byte(self) -> float:
        """Bytes per second that each byte of capacity delivers: MB/s for each TB, 10^6 by 10^12."""
        return self.tier / 1e6


def oci_lustre_offers(on_sale: OnSale) -> list[OciLustreOffer]:
    """Every tier that has a price, where its provider is the grid's."""
    found = []
    for tier in TIERS:
        offer = offer_of(on_sale.catalog.offers, tier)
        if offer.provider != on_sale.provider:
            continue
        price = offer_price(offer, on_sale.catalog.offer_prices[offer.name], on_sale.region)
        if price is not None:
            found.append(OciLustreOffer(tier, offer, price))
    return found
