"""What nodes are, beside what they do: their machine, and what libraries lie on, then and now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridwright.monitor.frame import Frame
from gridwright.monitor.readings import MountedPlace

RECENT_S = 600.0
"""What was known this long ago still holds: mounts are seldom changed."""
_MOST_REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class InventoryNode:
    """A node as a picture had it."""

    machine: str
    cpus: int
    cores: int
    places: Mapping[str, MountedPlace]
    """What directories of libraries lie on."""
    at_s: float
    """The time of that picture, in seconds since 1970."""


def inventory_of(frame: Frame) -> dict[str, InventoryNode]:
    """What nodes are, of a picture in which they are not away."""
    return {
        row.node: InventoryNode(
            row.machine or row.node, row.cpus, row.cores, frame.places.get(row.node, {}), frame.time
        )
        for row in frame.nodes
        if not row.absent
    }


@dataclass(slots=True)
class NodeInventory:
    """Remembers what nodes are, as pictures show it. Any thread may ask."""

    picture: Callable[[float], Frame]
    """The picture of a time, in seconds since 1970."""
    reach: Callable[[], tuple[float, float] | None]
    _now: dict[str, InventoryNode] = field(default_factory=dict)
    _then: dict[float, dict[str, InventoryNode]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self, frame: Frame) -> None:
        """Take over what a picture shows, unless a later one has shown it: people look back, too."""
        with self._lock:
            for name, node in inventory_of(frame).items():
                if name not in self._now or self._now[name].at_s <= node.at_s:
                    self._now[name] = node

    def at(self, time_s: float) -> Mapping[str, InventoryNode]:
        """What nodes were at a time, those that were away then as they are known else."""
        with self._lock:
            known = dict(self._now)
        if not known:
            reach = self.reach()
            if reach is None:
                return {}
            self.learn(self.picture(reach[1]))
            with self._lock:
                known = dict(self._now)
        if not known or time_s >= max(each.at_s for each in known.values()) - RECENT_S:
            return known
        return known | self._at(time_s // RECENT_S * RECENT_S)

    def _at(self, time_s: float) -> dict[str, InventoryNode]:
        with self._lock:
            nodes = self._then.get(time_s)
        if nodes is None:
            nodes = inventory_of(self.picture(time_s))
            with self._lock:
                if len(self._then) >= _MOST_REMEMBERED:
                    self._then.clear()
                self._then[time_s] = nodes
        return nodes
