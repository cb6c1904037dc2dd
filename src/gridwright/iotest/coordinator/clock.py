"""Measures how far the clock of a node is off, by messages that go there and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gridwright.errors import Finding

LIMIT_S = 0.1
"""A node whose clock is further off is reported: its logs cannot be laid beside those of others. Hosts with
a time service are within milliseconds of each other."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message there and back. `sent` and `back` by the clock here, the others by the node's; seconds."""

    sent: float
    received: float
    answered: float
    back: float

    @property
    def offset_s(self) -> float:
        """The node's clock less the one here: ((T2 - T1) + (T3 - T4)) / 2 (RFC 5905, section 8)."""
        return ((self.received - self.sent) + (self.answered - self.back)) / 2

    @property
    def round_trip_s(self) -> float:
        """Time on the way, there and back: (T4 - T1) - (T3 - T2) (RFC 5905, section 8)."""
        return (self.back - self.sent) - (self.answered - self.received)


def best(exchanges: Iterable[Exchange]) -> Exchange:
    """The exchange that was fastest on its way: its offset is wrong by half of that time at most.

    This is the clock filter of RFC 5905, section 10. Raises ValueError where there is none.
    """
    return min(exchanges, key=lambda each: each.round_trip_s)


@dataclass(frozen=True, slots=True)
class ClockOffsets:
    """What a node's clocks read less those here: one that is never set, and the time of day."""

    monotonic_s: float
    wall_s: float
    round_trip_s: float


def clock_finding(node: str, offset_s: float) -> Finding | None:
    """What to say of a node whose clock is so far ahead; None where that is within the limit."""
    if abs(offset_s) <= LIMIT_S:
        return None
    way = "ahead" if offset_s > 0 else "behind"
    return Finding(
        "warning",
        "clock-apart",
        f"the clock of node {node} is {abs(offset_s):.2f} s {way}; the test accounts "
        "for it, but logs of the nodes cannot be laid beside each other",
        "run a time service on all nodes, such as chrony",
    )
