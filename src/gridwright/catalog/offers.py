"""Managed file systems of any cloud as named offers: their published limits and prices.

What the planner builds by itself (FSx for Lustre by deployment and tier) is in managed.py. These are for
predictions of a file system that somebody else runs, also in clouds in which Gridwright builds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gridwright.catalog.facts import Fact
from gridwright.catalog.tables import RATE_UNITS, per, rows, source

OFFER_COLUMNS = ("provider", "offer", "protocol", "fact", "value", "unit", "source", "date")

_SIZES = {"TB": 1e12, "GiB": 2.0**30, "TiB": 2.0**40}


@dataclass(frozen=True, slots=True)
class ManagedOffer:
    """One offer and its published facts; a limit that nobody publishes has no fact.

    `read`, `write`: what all clients together get of one file system, each alone. `mixed_read`,
    `mixed_write`: both at once. `by_capacity`: what each TB or TiB of capacity brings, for reads and writes
    together. `client`: what one client gets, with the service's own client; `client_plain` with any other.
    `throughput_min`, `throughput_max`, `throughput_step`: throughput is bought apart from capacity, in steps.
    `capacity_min`, `capacity_max`, `capacity_step`: sizes on sale; from `capacity_large` on the step is
    `capacity_step_large`. `pool_step`: capacity is paid in pools of
    whole steps, and several file systems may share a pool. `capacity_fixed`: 1 where the size never changes.
    `read_cache_min`, `read_cache_max`: sizes of an SSD cache. `nconnect`: connections of one mount that the
    provider advises. `version_max`: the newest version of NFS that it speaks.
    """

    name: str
    provider: str
    protocol: str
    facts: Mapping[str, Fact]

    @property
    def tier(self) -> str:
        """The number at the end of its name, MB/s for each TB or TiB; empty where it has none."""
        found = self.name.rpartition("-")[2]
        return found if found.isdigit() else ""

    def figure(self, fact: str) -> float | None:
        """Return a rate in bytes/s (by_capacity: for each byte of capacity), a size in bytes, or a count.

        None where nobody publishes it.
        """
        found = self.facts.get(fact)
        if found is None:
            return None
        if found.unit in _SIZES:
            return found.value * _SIZES[found.unit]
        if found.unit.partition("/s")[0] + "/s" in RATE_UNITS:
            factor, divisor = per(found.unit)
            return found.value * factor / _SIZES.get(divisor, 1.0)
        return found.value


@cache
def managed_offers() -> dict[str, ManagedOffer]:
    """Return all packaged offers, by name."""
    facts: dict[tuple[str, str, str], dict[str, Fact]] = {}
    for provider, offer, protocol, fact, value, unit, text, date in rows("managed-offers.csv", OFFER_COLUMNS):
        of_offer = facts.setdefault((provider, offer, protocol), {})
        of_offer[fact] = Fact(float(value), unit, source(text, date))
    return {
        offer: ManagedOffer(offer, provider, protocol, each)
        for (provider, offer, protocol), each in facts.items()
    }
