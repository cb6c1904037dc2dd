"""Shared file systems that a planner may choose from, and the smallest for a need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from gridwright.catalog import Catalog, InstanceType
from gridwright.filesystems.growth import Growth
from gridwright.filesystems.volume_sets import VolumeMarket


@dataclass(frozen=True, slots=True)
class SharedChoice:
    """A shared file system: what it delivers in all, lasting, its room, and what it costs per hour.

    `managed`: the service replaces servers by itself. `durable`: data outlive the loss of a server.
    `servers` are machines of the grid. With `growth` it is what a grid begins with, and `usd_per_hour` is the
    mean of 12 months.
    """

    kind: str
    title: str
    bytes_per_s: float
    capacity_bytes: int
    usd_per_hour: float
    managed: bool
    durable: bool
    plain: dict[str, Any]
    servers: int = 0
    growth: Growth | None = None
    fixed_because: str = ""
    """Why its size can never be changed; empty where it can."""
    shares_volumes: bool = False
    """Whether its servers share their volumes in pairs."""


class Offer(Protocol):
    """File systems of a kind that differ in size alone."""

    @property
    def managed(self) -> bool:
        """Whether a service replaces servers by itself."""

    @property
    def durable(self) -> bool:
        """Whether data outlive the loss of a server."""

    @property
    def most(self) -> str:
        """The largest that a planner tries, in words."""

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        """The cheapest that delivers the rate and has the room; None where none does."""


@runtime_checkable
class GrowingOffer(Protocol):
    """An offer whose smallest for less room can often not grow into the smallest for more."""

    def growing(
        self, bytes_per_s: float, room: int, room_later: int
    ) -> tuple[SharedChoice, SharedChoice] | None:
        """The cheapest for the later room, and what it begins with; the latter grows in place."""


@dataclass(frozen=True, slots=True)
class OnSale:
    """What a provider sells in a region, for kinds to make offers of. Prices in USD per hour."""

    catalog: Catalog
    region: str
    servers: Sequence[tuple[InstanceType, float]]
    """Instance types that may serve file systems, with their prices."""
    volumes: VolumeMarket
    """Types of block volumes; some serve large sequential requests alone."""
    provider: str = ""
    """Whose region it is."""
    shared_volumes: VolumeMarket = field(default_factory=lambda: VolumeMarket(()))
    """Types of volumes that can be attached to two servers at once."""
    services_of: str = ""
    """The provider whose managed offers may be chosen; empty where none may."""
