"""What the table of claims holds: one item for each slot, and what became of each volume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gridwright.node_programs.lustre_targets.states import NEW


@dataclass(frozen=True)
class VolumeRecord:
    """The record of a volume: its target and its state."""

    target: str
    state: str = NEW


@dataclass(frozen=True)
class Record:
    """The item of a slot."""

    slot: str
    owner: str
    """Instance that the machine is."""
    token: int
    """Rises with every change of owner."""
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)
    """By volume ID."""
    interface: str = ""

    def with_volume(self, volume: str, kept: VolumeRecord) -> Record:
        """The record in which a volume is known; what was known of another one for its target is dropped."""
        others = {name: each for name, each in self.volumes.items() if each.target != kept.target}
        return replace(self, volumes={**others, volume: kept})
