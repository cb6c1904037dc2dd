"""Oracle's managed Lustre in a prediction: rates and price by capacity and tier, sizes on sale, and rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gridwright.catalog import ManagedOffer
from gridwright.catalog.managed import OfferPrice, managed_offers, offer_price
from gridwright.errors import Finding
from gridwright.filesystems.oci_lustre.model import GB, TIERS, LustreCapacity, OciLustreFileSystem
from gridwright.filesystems.offers import OnSale, SharedChoice
from gridwright.filesystems.resources import OPERATIONS, Contribution, Cost, Resource, Route, Use
from gridwright.filesystems.site import Site
from gridwright.spec.model import GridSpec
from gridwright.yamltext.fields import FieldError

OFFER_NAMES = {tier: f"oci-lustre-{tier}" for tier in TIERS}
"""The catalogue's name of each tier."""


def offer_of(offers: Mapping[str, ManagedOffer], tier: int) -> ManagedOffer:
    """The offer of a tier, in MB/s for each TB."""
    return offers[OFFER_NAMES[tier]]


def least_size(offer: ManagedOffer, wanted_bytes: float) -> int:
    """The smallest size on sale from so many bytes on, in bytes.

    Sizes are the smallest, steps up to a large one, and larger steps from there on
    (docs.oracle.com/en-us/iaas/Content/lustre/file-system-capacity.htm, 2026-11-27).
    """
    least, step = _gb(offer, "capacity_min"), _gb(offer, "capacity_step")
    large, large_step = _gb(offer, "capacity_large"), _gb(offer, "capacity_step_large")
    wanted = wanted_bytes / GB * (1 - 1e-12)
    if wanted <= large:
        return (least + max(0, math.ceil((wanted - least) / step)) * step) * GB
    return (large + math.ceil((wanted - large) / large_step) * large_step) * GB


def nearest_sizes(offer: ManagedOffer, size_bytes: int) -> Iterator[int]:
    """The sizes on sale just below, where there is one, and just above, in bytes; the size itself alone."""
    above = least_size(offer, size_bytes)
    if above == size_bytes:
        yield above
        return
    if above > _gb(offer, "capacity_min") * GB:
        large = _gb(offer, "capacity_large") * GB
        yield above - _gb(offer, "capacity_step" if above <= large else "capacity_step_large") * GB
    yield above


def _gb(offer: ManagedOffer, fact: str) -> int:
    found = offer.figure(fact)
    if found is None:
        raise LookupError(f"{offer.name} has no {fact}")
    return round(found / GB)


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


_Problem = tuple[tuple[str, ...], FieldError]
_CAPACITY: TypeAdapter[int] = TypeAdapter(LustreCapacity)


def oci_lustre_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    yield from _size(fields)
    yield from _links(fields)


def _size(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    try:
        size = _CAPACITY.validate_python(fields.get("capacity"))
    except ValidationError:
        return
    # All tiers have the same sizes.
    near = list(nearest_sizes(offer_of(managed_offers(), TIERS[0]), size))
    if near != [size]:
        yield (
            ("capacity",),
            FieldError(
                f"{fields['capacity']} of Oracle's Lustre is not on sale",
                f"the nearest is {' or '.join(f'{each / GB / 1000:g} TB' for each in near)}",
            ),
        )


def _links(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """The service runs one job of a file system at a time, and refuses links that overlap."""
    links = fields.get("links")
    if not isinstance(links, list):
        return
    seen: list[str] = []
    for number, link in enumerate(links):
        directory = link.get("directory", "/") if isinstance(link, Mapping) else None
        if not isinstance(directory, str):
            continue
        path = "/" + directory.strip("/")
        inside = [each for each in seen if _overlap(each, path)]
        if inside:
            yield (
                ("links", str(number), "directory"),
                FieldError(
                    f"{path} is inside of {inside[0]}, or around it, which another link has: two jobs would "
                    "copy the same files",
                    "write directories of which none holds another",
                ),
            )
        seen.append(path)


def _overlap(one: str, other: str) -> bool:
    first, second = (each.rstrip("/") + "/" for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def oci_lustre_findings(name: str, filesystem: OciLustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
    """What is paid after it is gone, what mounts cannot tell apart, and what links do not copy."""
    yield Finding(
        "info",
        "billed-for-30-days",
        f"Oracle bills {name} in cycles of 30 days: one that is removed earlier costs until its cycle ends "
        "(OCI API, LustreFileSystem.timeBillingCycleEnd)",
        "For a trial of a day, take a file system on servers of the grid: nsd or oss",
    )
    twins = [
        each
        for each, other in spec.filesystems.items()
        if isinstance(other, OciLustreFileSystem) and each != name and other.name == filesystem.name
    ]
    if twins and name > min(twins):
        yield Finding(
            "warning",
            "same-lustre-name",
            f"{name} and {twins[0]} are both called {filesystem.name}: in what nodes tell of their targets "
            "nobody can tell them apart",
            "Write another name, of at most 8 characters",
        )
    if spec.links_of(name):
        yield Finding(
            "warning",
            "link-copies-only",
            f"the links of {name} with Object Storage copy and no more: what is deleted on one side stays on "
            "the other, a changed owner or mode alone is not copied, hard links become files of their own, "
            "and one job runs at a time",
            "Keep what is deleted in mind when you export, or write s3:// in repositories, whose files "
            "Gridwright carries itself",
        )
