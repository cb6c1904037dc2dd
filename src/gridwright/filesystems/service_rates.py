"""A file system that is a service in a prediction: its offer held against the spec, its routes, its price."""

from __future__ import annotations

from gridwright.catalog.managed import ManagedOffer
from gridwright.filesystems.resources import Contribution, Cost, ServiceTerms
from gridwright.filesystems.service_cost import usd_per_hour
from gridwright.filesystems.service_figures import figures_of, published_mix
from gridwright.filesystems.service_limits import MetadataLimits
from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.filesystems.service_routes import service_routes
from gridwright.filesystems.site import Site
from gridwright.units import Bytes, format_rate


def service_contribution(
    name: str,
    filesystem: ServiceFileSystem,
    site: Site,
    title: str,
    *,
    protocol: str = "",
    connections: int = 1,
) -> Contribution:
    """What the service delivers to all nodes. Problems with the spec are noted at the site.

    `title` is what it is called where it names no offer; `protocol` is what an offer has to speak, if any.
    """
    path = ("filesystems", name)
    problems = len(site.problems)
    offer = _offer(path, filesystem, site)
    if offer is not None:
        _check_offer(path, filesystem, offer, site)
        _check_protocol(path, filesystem.type, protocol, offer, site)
    if len(site.problems) > problems:
        return Contribution({}, unknown="its offer or size is not on sale")
    figures = figures_of(filesystem, offer, title, connections)
    missing = figures.missing()
    label = _label(filesystem, title)
    limits = filesystem.limits
    hourly, findings = usd_per_hour(name, filesystem, offer, site)
    metadata = (limits.metadata if limits else None) or MetadataLimits()
    return Contribution(
        service_routes(name, figures, site.nodes),
        (Cost(label, hourly),),
        capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
        # A service that loses data with one of its servers says so; none of the offers does.
        outlives_server=offer is not None or not protocol,
        unknown=f"nobody says what it delivers ({' and '.join(missing)}; limits: or throughput: does)"
        if missing
        else "",
        service=ServiceTerms(
            label,
            filesystem.reads / 100,
            published_mix(offer, figures),
            metadata.latency,
            metadata.operations,
        ),
        findings=findings,
    )


def _label(filesystem: ServiceFileSystem, title: str) -> str:
    words = filesystem.offer or title
    return words if filesystem.capacity is None else f"{words} of {Bytes(filesystem.capacity)}"


def _offer(path: tuple[str, ...], filesystem: ServiceFileSystem, site: Site) -> ManagedOffer | None:
    """The offer that it names; None where it names none, or after its problem was noted."""
    if filesystem.offer is None:
        return None
    with site.field(*path, "offer"):
        return site.catalog.offer(filesystem.offer)
    return None


def _check_offer(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    """Note what the offer's provider would refuse, and what has to be said for its throughput."""
    if offer.provider != site.spec.provider:
        site.report(
            (*path, "offer"),
            f"{offer.name} is an offer of {offer.provider}, and the provider is {site.spec.provider}",
            f"choose one of {site.spec.provider}, or write provider: {offer.provider}; "
            "gridwright catalog list shows all",
        )
    if offer.figure("by_capacity") and filesystem.capacity is None and filesystem.throughput is None:
        site.report(
            path,
            f"the throughput of {offer.name} goes by its capacity, and none is written",
            "add capacity: 12 TiB, or what is bought apart from it, such as throughput: 2 GB/s",
        )
    _check_capacity(path, filesystem, offer, site)
    _check_throughput(path, filesystem, offer, site)


def _check_protocol(path: tuple[str, ...], kind: str, protocol: str, offer: ManagedOffer, site: Site) -> None:
    """Note an offer that clients of this kind do not reach."""
    if protocol and offer.protocol != protocol:
        site.report(
            (*path, "offer"),
            f"nodes reach {offer.name} by {offer.protocol}, and this is of type {kind}",
            f"write type: {offer.protocol}, or an offer that speaks {protocol}; gridwright catalog list "
            "--json names their protocols",
        )


def _check_throughput(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    """What is bought apart from capacity has to be said, within what is sold."""
    least, most, step = (offer.figure(f"throughput_{each}") for each in ("min", "max", "step"))
    if filesystem.throughput is None:
        if least is not None and filesystem.limits is None:
            site.report(
                path,
                f"the throughput of {offer.name} is bought apart from its capacity, and none is written",
                f"add throughput: {format_rate(least)}, or more",
            )
        return
    rate = filesystem.throughput.bytes_per_s
    if least is not None and rate < least:
        what, remedy = f"is sold from {format_rate(least)} on", f"write {format_rate(least)} or more"
    elif most is not None and rate > most:
        what, remedy = f"is sold up to {format_rate(most)}", f"write {format_rate(most)} or less"
    elif step and rate % step:
        what, remedy = f"is sold in steps of {format_rate(step)}", f"write a multiple of {format_rate(step)}"
    else:
        return
    site.report((*path, "throughput"), f"{offer.name} {what}, and this is {filesystem.throughput}", remedy)


def _check_capacity(
    path: tuple[str, ...], filesystem: ServiceFileSystem, offer: ManagedOffer, site: Site
) -> None:
    size = filesystem.capacity
    if size is None:
        return
    least, most, step = (offer.figure(f"capacity_{each}") for each in ("min", "max", "step"))
    if least is not None and size < least:
        what, remedy = f"is sold from {_size(least)} on", f"write {_size(least)} or more"
    elif most is not None and size > most:
        what, remedy = f"is sold up to {_size(most)}", f"write {_size(most)} or less"
    elif step is not None and size % step:
        above = (size // step + 1) * step
        what, remedy = f"is sold in steps of {_size(step)}", f"the next is {_size(above)}"
    else:
        return
    site.report((*path, "capacity"), f"{offer.name} {what}, and this is {size}", remedy)


def _size(size: float) -> str:
    return str(Bytes(int(size)))
