"""File systems that a cloud runs as a service, known by their figures: a section of the spec, and offers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gridwright.errors import Finding
from gridwright.filesystems.kind import CloudFindings, FileSystemKind, Offers
from gridwright.filesystems.service_model import ServiceFileSystem, service_problems
from gridwright.spec.filesystem import NEW_KIND
from gridwright.units import Bytes, format_bytes
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.catalog.managed import ManagedOffer, OfferPrice
    from gridwright.filesystems.offers import Offer, OnSale, SharedChoice
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


class ManagedFileSystem(ServiceFileSystem):
    """A file system that a cloud runs as a service, and that nodes find mounted."""

    type: Annotated[Literal["managed"], NEW_KIND] = Field(
        description="The kind of file system: managed is a service of any cloud, described by its figures."
    )


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
        from gridwright.filesystems.offers import SharedChoice

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


def _service_offers(on_sale: OnSale) -> list[ServiceOffer]:
    """Every offer of the provider whose throughput and price go by its capacity."""
    from gridwright.catalog.managed import offer_price

    found = []
    for name, offer in on_sale.catalog.offers.items():
        if offer.provider != on_sale.services_of:
            continue
        price = offer_price(offer, on_sale.catalog.offer_prices[name], on_sale.region)
        each = offer.figure("by_capacity")
        if price is not None and price.is_whole and each:
            found.append(ServiceOffer(offer, price, each))
    return found


class ManagedKind(FileSystemKind[ManagedFileSystem], CloudFindings[ManagedFileSystem], Offers):
    """A service that is there already, and that the site mounts; predictions know it by its figures."""

    spec_model = ManagedFileSystem
    title = "managed file system"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Neither offer nor figures, prices by a capacity that nobody names, limits that contradict."""
        if fields.get("offer") is None and fields.get("limits") is None:
            yield (
                (),
                FieldError(
                    "a managed file system has neither offer nor limits, so nothing is known of it",
                    "write offer: azure-netapp-files-ultra, or another of gridwright catalog list, or "
                    "limits: {read: 4500 MiB/s, write: 1500 MiB/s}",
                ),
            )
        yield from service_problems(fields)

    def cloud_findings(self, name: str, filesystem: ManagedFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Nodes that a cloud makes have nothing at its path until somebody mounts it."""
        yield Finding(
            "warning",
            "managed-not-mounted",
            f"neither up nor setup makes or mounts the managed file system {name}: until somebody does, jobs "
            f"write to the system disk of each node below {filesystem.path}",
            f"Mount it at {filesystem.path} on every node, or describe it as nfs or lustre",
        )

    def contribute(self, name: str, filesystem: ManagedFileSystem, site: Site) -> Contribution:
        """What the service delivers to all nodes, as its figures say."""
        from gridwright.filesystems.service_rates import service_contribution

        return service_contribution(name, filesystem, site, self.title)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """The provider's offers at their list prices, where its plans choose of these."""
        return _service_offers(on_sale)

    def describe(self, filesystem: ManagedFileSystem) -> str:
        """The offer, and its size where it is known."""
        words = [filesystem.offer or self.title]
        words += [str(filesystem.capacity)] if filesystem.capacity is not None else []
        return ", ".join(words)


KIND = ManagedKind()
