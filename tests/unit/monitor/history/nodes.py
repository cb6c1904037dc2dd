"""Snapshots of a node that does what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.monitor.readings import Key, MountedPlace, Reading, Snapshot

START = 1_800_000_000
"""A time at which a block of each level but the coarsest begins."""
DISK = ("node_disk_read_bytes_total", "sda")
MEMORY = ("node_memory_MemAvailable_bytes",)


@dataclass
class SampledNode:
    """A node whose counters rise by what each sample is told; `time` is its wall clock."""

    time: float = START + 0.5
    machine: str = "boot1"
    at_s: float = 1000.0
    counters: dict[Key, float] = field(default_factory=dict)
    places: dict[str, MountedPlace] = field(default_factory=dict)

    def passes(self, seconds: float = 1.0, *, clock: float = 0.0) -> None:
        """Time goes on; `clock` is by how much the wall clock is set beside that."""
        self.at_s += seconds
        self.time += seconds + clock

    def sample(
        self,
        rises: Mapping[Any, float] | None = None,
        gauges: Mapping[Any, float] | None = None,
        silent: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """A snapshot, with counters that have risen by so much."""
        for key, more in (rises or {}).items():
            self.counters[key] = self.counters.get(key, 0.0) + more
        values = {**self.counters, **(gauges or {})}
        readings = [Reading(key[0], key[1:], value, self.at_s) for key, value in values.items()]
        return Snapshot(
            "n1",
            self.machine,
            self.time,
            self.at_s,
            8,
            4,
            tuple(readings),
            dict(silent or {}),
            self.places,
            0.004,
        )
