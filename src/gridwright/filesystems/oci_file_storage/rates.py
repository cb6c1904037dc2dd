"""OCI File Storage in a prediction: what a mount target passes, and what is stored in it costs."""

from __future__ import annotations

from gridwright.catalog.managed import offer_price
from gridwright.filesystems.oci_file_storage.model import OciFileStorageFileSystem
from gridwright.filesystems.resources import OPERATIONS, Contribution, Cost, Operation, Resource, Route, Use
from gridwright.filesystems.site import Site
from gridwright.units import Bytes

OFFER = "oci-file-storage"


def contribute(name: str, filesystem: OciFileStorageFileSystem, site: Site) -> Contribution:
    """What one mount target of the standard kind passes to all nodes. Problems are noted at the site."""
    offer = site.catalog.offers[OFFER]
    if site.spec.provider != offer.provider:
        site.report(
            ("filesystems", name, "type"),
            f"OCI File Storage is a service of Oracle, and the provider is {site.spec.provider}",
            f"choose another type of file system, such as nfs, or provider: {offer.provider}",
        )
        return Contribution({}, unknown="it is not on offer there")
    routes: dict[Operation, Route] = {}
    for operation in OPERATIONS:
        rate = offer.figure(operation)
        if rate is None:
            return Contribution({}, unknown="nobody says what its mount target passes")
        source = str(offer.facts[operation].source)
        target = Resource(
            f"{name}.mount-target-{operation}",
            "mount target of OCI File Storage, 1 Gbit/s",
            "grid",
            rate,
            source,
            nature="server",
        )
        routes[operation] = Route((*site.nodes.network(operation), Use(target)))
    return Contribution(routes, (_cost(name, filesystem, site),))


def _cost(name: str, filesystem: OciFileStorageFileSystem, site: Site) -> Cost:
    """By what is expected on it; unknown where nobody says how much."""
    stored = filesystem.capacity
    offer = site.catalog.offers[OFFER]
    price = offer_price(offer, site.catalog.offer_prices[OFFER], site.region)
    if stored is None or price is None:
        return Cost(f"OCI File Storage {name}, by what it holds", None)
    return Cost(f"OCI File Storage {name} with {Bytes(stored)}", price.usd_per_hour(stored, 0))
