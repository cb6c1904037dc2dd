"""Whoever supplies the machines of nodes: a cloud, or a lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class SupplyError(Exception):
    """The supply does not answer; nothing is known of its machines, and nothing is done for now."""


@dataclass(frozen=True)
class Settled:
    """What one round brought about."""

    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are wanted and cannot be had now, and why, in words for users who wait."""
    done: tuple[str, ...] = ()
    """What was done, in words for the log."""


class Supply(Protocol):
    """Has machines of nodes there, or not."""

    def settle(self, desired: frozenset[str]) -> Settled:
        """Go on until the machines of these nodes are there, or on their way, and no others.

        Called again and again, also after it was cut off anywhere: it looks at what there is, and never
        has two machines for one node. Raises SupplyError where nothing is known.
        """
