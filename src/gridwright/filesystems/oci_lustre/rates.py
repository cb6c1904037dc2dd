"""Oracle's managed Lustre in a prediction: throughput by capacity and tier, and its price."""

from __future__ import annotations

from gridwright.catalog import ManagedOffer
from gridwright.catalog.managed import offer_price
from gridwright.errors import Finding
from gridwright.filesystems.oci_lustre.model import OciLustreFileSystem
from gridwright.filesystems.oci_lustre.sizes import offer_of
from gridwright.filesystems.resources import OPERATIONS, Contribution, Cost, Resource, Route, Use
from gridwright.filesystems.site import Site

TB = 10**12


def contribute(name: str, filesystem: OciLustreFileSystem, site: Site) -> Contribution:
    """What the service delivers to all nodes. Problems with the spec are noted at the site.

    Oracle says one rate for each TB, of reads and of writes; how many targets there are it does not say.
    """
    offer = offer_of(site.catalog.offers, filesystem.throughput)
    if site.spec.provider != offer.provider:
        site.report(
            ("filesystems", name, "type"),
            f"OCI File Storage with Lustre is a service of Oracle, and the provider is {site.spec.provider}",
            f"choose another type of file system, or provider: {offer.provider}",
        )
        return Contribution({}, unknown="it is not on offer there")
    label = f"OCI Lustre of {filesystem.capacity_gb:,} GB at {filesystem.throughput} MB/s per TB"
    delivered = Resource(
        f"{name}.throughput",
        label,
        "grid",
        filesystem.throughput * 1e6 * filesystem.capacity / TB,
        str(offer.facts["by_capacity"].source),
        nature="server",
    )
    usd, findings = _price(name, filesystem, offer, site)
    return Contribution(
        {each: Route((*site.nodes.network(each), Use(delivered))) for each in OPERATIONS},
        (Cost(label, usd),),
        capacity_bytes=int(filesystem.capacity),
        findings=findings,
    )


def _price(
    name: str, filesystem: OciLustreFileSystem, offer: ManagedOffer, site: Site
) -> tuple[float | None, tuple[Finding, ...]]:
    """USD for an hour, None where no price is listed; and how far the price is known."""
    listed = offer_price(offer, site.catalog.offer_prices[offer.name], site.region)
    if listed is None:
        return None, ()
    usd = listed.usd_per_hour(filesystem.capacity, 0)
    said = " and ".join(str(each) for each in listed.sources)
    finding = Finding(
        "info",
        "list-price",
        "; ".join(
            (f"{name} is reckoned at the list price of {offer.name}, {usd:.2f} USD/h ({said})", *listed.notes)
        ),
        "Compare it with the cost estimator of your tenancy; catalog.yaml beside the grid spec takes prices "
        "of your own",
    )
    return usd, (finding,)
