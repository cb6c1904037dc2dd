"""How much one instance type lets through to each place of the libraries, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

from gridwright.catalog import InstanceType
from gridwright.filesystems.offers import VolumeMarket, most_volumes
from gridwright.filesystems.servers import store_rates
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.plan.needs import Needs
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.units import format_bytes, format_rate

Place = Literal["shared", "scratch", "instance-store", "volumes", "kept", "kept-local"]
"""Where a library may live; `kept` are file systems of the spec that nodes share, `kept-local` a node's."""
NETWORKED = frozenset[Place]({"shared", "scratch", "kept"})
"""Places that are over the network of every type of node."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each library lives, and what that asks of each place, whatever the nodes are.

    Rates are bytes per second for each core, rooms are bytes; of places in use alone. `over_network` is what
    the network of a node carries where volumes have a way of their own, and where they are behind it, too.
    `homes` are the kept file systems of those that live on one. `rooms` are what is needed now, and
    `rooms_later` in 12 months.
    """

    places: Mapping[str, Place]
    rates: Mapping[Place, float]
    rooms: Mapping[Place, int]
    over_network: tuple[float, float]
    homes: Mapping[str, str] = field(default_factory=dict)
    rooms_later: Mapping[Place, int] = field(default_factory=dict)

    @classmethod
    def of(cls, needs: Needs, places: Mapping[str, Place], homes: Mapping[str, str] | None = None) -> Self:
        """What these places are asked for by these needs."""
        held = {place: libraries_at(places, place) for place in dict.fromkeys(places.values())}
        return cls(
            places,
            {place: needs.rate(names) for place, names in held.items()},
            {place: needs.capacity(names) for place, names in held.items()},
            (needs.rate(_carried(places, NETWORKED)), needs.rate(_carried(places, NETWORKED | {"volumes"}))),
            homes or {},
            {place: needs.capacity_later(names) for place, names in held.items()},
        )


class NodeSide:
    """One instance type as a node. Rates are lasting, in bytes per second for each physical core."""

    def __init__(self, needs: Needs, volumes: VolumeMarket, instance: InstanceType) -> None:
        self.needs = needs
        self.volumes = volumes
        self.instance = instance
        self.network = steady_network(instance) / instance.cores

    def nodes(self, places: Mapping[str, Place]) -> int:
        """Nodes for the cores, and for the room on their instance stores."""
        return self.nodes_for(self.needs.capacity_later(libraries_at(places, "instance-store")))

    def nodes_for(self, room: int, cores: int | None = None) -> int:
        """Nodes for the cores, and for so many bytes on their instance stores, or as many as are given.

        `cores` are by default those required; so they are for `allows`.
        """
        given, least = self.needs.given.count, self.needs.requirements.nodes.count.least
        return given or max(self._least_nodes(room, cores), least or 1)

    def allows(self, count: int, room: int, cores: int | None = None) -> bool:
        """Whether so many nodes are enough for cores and room, and no more than a grid may have."""
        most = self.needs.requirements.nodes.count.most
        return self._least_nodes(room, cores) <= count <= min(MAX_NODES, most or MAX_NODES)

    def _least_nodes(self, room: int, cores: int | None) -> int:
        count = math.ceil((cores or self.needs.cores) / self.instance.cores)
        store = self.instance.instance_store
        return max(count, math.ceil(room / store.total_bytes)) if store and room else count

    def place_rate(self, place: Place) -> float | None:
        """What a node passes to and from one place; None where it has none, or the rate is not known."""
        if place == "instance-store":
            return self._store_rate
        return self._volumes_rate if place == "volumes" else self.network

    @cached_property
    def _store_rate(self) -> float | None:
        store = self.instance.instance_store
        rates = store_rates(store) if store else None
        return min(rates.values()) / self.instance.cores if rates else None

    @cached_property
    def _volumes_rate(self) -> float | None:
        if self.instance.ebs is None:
            return None
        own = (volume_limit(self.instance) or math.inf) / self.instance.cores
        way = min(own, self.network if self._volumes_networked else math.inf)
        return None if way == math.inf else way

    @cached_property
    def _volumes_networked(self) -> bool:
        return shares_network(self.instance)

    def network_users(self, places: Mapping[str, Place]) -> list[str]:
        """The libraries that a node's network carries: volumes count where they are behind it."""
        return _carried(places, NETWORKED | ({"volumes"} if self._volumes_networked else set()))

    def passes(self, placement: Placement, level: float) -> bool:
        """Whether network and instance store pass the required rates, `level` times over; volumes aside."""
        if placement.over_network[self._volumes_networked] * level > self.network:
            return False
        own = placement.rates.get("instance-store")
        rate = self._store_rate
        return own is None or (rate is not None and own * level <= rate)

    def obstacle(self, places: Mapping[str, Place]) -> str | None:
        """Why a node cannot have the libraries in these places, in words; None where it can."""
        users = self.network_users(places)
        if self.needs.rate(users) > self.network:
            return f"its network passes {self._of(self.network, users)} for {listed(users)}"
        return self.local_obstacle(places)

    def local_obstacle(self, places: Mapping[str, Place]) -> str | None:
        """As `obstacle`, of the node's own disks and volumes alone."""
        return self._store_obstacle(places) or self._volumes_obstacle(places)

    def _store_obstacle(self, places: Mapping[str, Place]) -> str | None:
        own = libraries_at(places, "instance-store")
        rate = self.place_rate("instance-store")
        found = None
        if not own:
            return None
        if self.instance.instance_store is None:
            found = "it has no instance store"
        elif not self.needs.requirements.availability.lose_work_with_node:
            found = "its instance store is lost with a node"
        elif rate is None:
            found = "no rate of its instance store is known"
        elif self.needs.rate(own) > rate:
            found = f"its instance store passes {self._of(rate, own)} for {listed(own)}"
        elif self.nodes(places) > MAX_NODES:
            room = format_bytes(self.needs.capacity_later(own))
            found = f"{room} on instance stores take {self.nodes(places)} nodes, of at most {MAX_NODES}"
        return found

    def _volumes_obstacle(self, places: Mapping[str, Place]) -> str | None:
        own = libraries_at(places, "volumes")
        if not own:
            return None
        if self.instance.ebs is None:
            return "no rate to volumes is known"
        rate = self.place_rate("volumes")
        if rate is not None and self.needs.rate(own) > rate:
            return f"its way to volumes passes {self._of(rate, own)} for {listed(own)}"
        required = self.needs.rate(own) * self.instance.cores
        room = self.needs.capacity_later(own) / self.nodes(places)
        most = most_volumes(self.instance) - self.needs.given.node_volumes
        if self.volumes.cheapest(required, room, most) is None:
            brought = f"{format_rate(required)} and {format_bytes(room)} to each node"
            return f"no volumes on sale, of at most {most}, bring {brought}"
        return None

    def _of(self, rate: float, libraries: Iterable[str]) -> str:
        required = format_rate(self.needs.rate(libraries), True)
        return f"{format_rate(rate, True)} of {required} required"


def listed(names: Iterable[str]) -> str:
    """`data, work and util`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def libraries_at(places: Mapping[str, Place], place: Place) -> list[str]:
    """The libraries that live in one place."""
    return [name for name, where in places.items() if where == place]


def _carried(places: Mapping[str, Place], by: frozenset[Place]) -> list[str]:
    return [name for name, place in places.items() if place in by]
