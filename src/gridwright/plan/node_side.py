"""How much one instance type lets through to each place of the libraries, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from gridwright.catalog import InstanceType
from gridwright.filesystems.disks import store_rates
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.filesystems.volume_sets import VolumeMarket
from gridwright.plan.needs import Needs
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.units import format_bytes, format_rate

Place = Literal["shared", "scratch", "instance-store", "volumes"]
"""Where a library may live."""


class NodeSide:
    """One instance type as a node. Rates are lasting, in bytes per second for each physical core."""

    def __init__(self, needs: Needs, volumes: VolumeMarket, instance: InstanceType) -> None:
        self.needs = needs
        self.volumes = volumes
        self.instance = instance
        self.network = steady_network(instance) / instance.cores

    def nodes(self, places: Mapping[str, Place]) -> int:
        """Nodes for the cores, and for the room on their instance stores."""
        count = math.ceil(self.needs.requirements.cores / self.instance.cores)
        own = libraries_at(places, "instance-store")
        store = self.instance.instance_store
        if not own or store is None:
            return count
        return max(count, math.ceil(self.needs.capacity(own) / store.total_bytes))

    def place_rate(self, place: Place) -> float | None:
        """What a node passes to and from one place; None where it has none, or the rate is not known."""
        if place == "instance-store":
            store = self.instance.instance_store
            rates = store_rates(store) if store else None
            return min(rates.values()) / self.instance.cores if rates else None
        if place != "volumes":
            return self.network
        if self.instance.ebs is None:
            return None
        own = (volume_limit(self.instance) or math.inf) / self.instance.cores
        way = min(own, self.network if shares_network(self.instance) else math.inf)
        return None if way == math.inf else way

    def network_users(self, places: Mapping[str, Place]) -> list[str]:
        """The libraries that a node's network carries: volumes count where they are behind it."""
        carried = {"shared", "scratch"} | ({"volumes"} if shares_network(self.instance) else set())
        return [name for name, place in places.items() if place in carried]

    def passes(self, places: Mapping[str, Place], level: float) -> bool:
        """Whether network and instance store pass the required rates, `level` times over; volumes aside."""
        if self.needs.rate(self.network_users(places)) * level > self.network:
            return False
        own = libraries_at(places, "instance-store")
        rate = self.place_rate("instance-store")
        return not own or (rate is not None and self.needs.rate(own) * level <= rate)

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
            room = format_bytes(self.needs.capacity(own))
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
        wanted = self.needs.rate(own) * self.instance.cores
        room = self.needs.capacity(own) / self.nodes(places)
        if self.volumes.cheapest(wanted, room) is None:
            return f"no volumes on sale bring {format_rate(wanted)} and {format_bytes(room)} to each node"
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
