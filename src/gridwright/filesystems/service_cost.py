"""What a file system that is a service costs: what the grid spec says, else the list prices of its offer."""

from __future__ import annotations

from gridwright.catalog.managed import ManagedOffer, OfferPrice, offer_price
from gridwright.errors import Finding
from gridwright.filesystems.resources import Cost
from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.filesystems.site import Site
from gridwright.units import HOURS_PER_MONTH

GIB = 2**30
GB_PER_S = 1e9
"""The rate whose price tells what an offer with prices by use costs."""


def usd_per_hour(
    name: str, filesystem: ServiceFileSystem, offer: ManagedOffer | None, site: Site
) -> tuple[float | None, tuple[Finding, ...]]:
    """USD for an hour, None where nobody says; and what is to be known of a list price.

    A price of the spec takes the place of all list prices. An offer that asks for each GiB that is read or
    written has no price by the hour.
    """
    if (stated := _stated_usd(filesystem)) is not None:
        return stated, ()
    listed = offer_price(offer, site.catalog.offer_prices[offer.name], site.region) if offer else None
    if offer is None or listed is None or filesystem.capacity is None:
        return None, ()
    bought = filesystem.throughput.bytes_per_s if filesystem.throughput is not None else 0
    hourly = listed.usd_per_hour(filesystem.capacity, bought)
    finding = _finding(name, offer, listed, hourly)
    return (hourly if listed.is_whole else None), (finding,)


def stated_costs(label: str, filesystem: ServiceFileSystem) -> tuple[Cost, ...]:
    """The line of the bill for what the spec says that it costs; none where it says nothing."""
    usd = _stated_usd(filesystem)
    return () if usd is None else (Cost(label, usd),)


def _stated_usd(filesystem: ServiceFileSystem) -> float | None:
    """USD for an hour by the spec."""
    if filesystem.price is None and filesystem.storage_price is None:
        return None
    gib = (filesystem.capacity or 0) / GIB
    return (filesystem.price or 0.0) + (filesystem.storage_price or 0.0) * gib / HOURS_PER_MONTH


def _finding(name: str, offer: ManagedOffer, listed: OfferPrice, hourly: float) -> Finding:
    said = " and ".join(str(source) for source in listed.sources)
    what = f"{name} is reckoned at the list price of {offer.name}, {hourly:.2f} USD/h ({said})"
    remedy = "Write what you pay: storage_price: 0.30 USD/GiB/month, or price: 3.20 USD/h"
    if not listed.is_whole:
        moved = " and ".join(
            f"{listed.moved_usd_per_hour(GB_PER_S, each):,.0f} USD/h at 1 GB/s of {each}s"
            for each in listed.usd_per_gib_moved
        )
        what = (
            f"{offer.name} asks for what is read and written: {moved}, beside {hourly:.2f} USD/h for the "
            f"capacity of {name} ({said}); its cost depends on the jobs, and is not reckoned"
        )
        remedy = "Write what it comes to with your jobs: price: 40 USD/h"
    what = "; ".join((what, *listed.notes))
    return Finding("info" if listed.is_whole else "warning", "list-price", what, remedy)
