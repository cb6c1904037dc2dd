"""Marks families of instance types against requirements per physical core: the table of paper 002."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gridwright.catalog.facts import rows
from gridwright.catalog.instances import InstanceType

NETWORK_BYTES_PER_S_PER_CORE = 100e6
"""Default threshold: the low end of the overall recommendation, 100 MB/s per core (002.rec.overall_low).

The paper names 100 to 125 MB/s overall and 75 to 100 for SASDATA, and does not say which its marks
mean. Only 100 fits: at 75 most sizes of c5, m5 and r5 and all of i3 would pass, and none may.
"""

MEMORY_BYTES_PER_CORE = 8e9
"""Default threshold: 8 GB per core (002.rec.memory), decimal.

What an operating system sees of m5n is 8.36 GB, or 7.78 GiB, per core (002.mem.m5n_gb,
002.mem.m5n_gib), and the paper marks m5n as meeting it.
"""

RULE = (
    "A family meets a requirement when every one of its sizes does. Network: the listed steady baseline "
    "(never the burst, never a measured rate) divided by physical cores. Memory: the listed memory "
    "divided by physical cores. Types with accelerators are left out."
)

MARK_COLUMNS = ("family", "network_meets", "memory_meets", "fact")


@dataclass(frozen=True, slots=True)
class PublishedMark:
    """How paper 002 marks a family; `fact` is the fact id of the row."""

    network_meets: bool
    memory_meets: bool
    fact: str


@dataclass(frozen=True, slots=True)
class FamilyMarks:
    """One family against the thresholds.

    Ranges are over the family's sizes, per physical core: network in bytes per second, memory in
    bytes. `network_misses` and `memory_misses` name the sizes below the threshold.
    """

    family: str
    provider: str
    sizes: int
    network_meets: bool
    memory_meets: bool
    network_lowest: float
    network_highest: float
    memory_lowest: float
    memory_highest: float
    network_misses: tuple[str, ...]
    memory_misses: tuple[str, ...]
    current: bool
    published: PublishedMark | None


def qualify(
    instances: Iterable[InstanceType],
    network: float = NETWORK_BYTES_PER_S_PER_CORE,
    memory: float = MEMORY_BYTES_PER_CORE,
) -> list[FamilyMarks]:
    """Mark each family of `instances`, in alphabetical order; see RULE.

    `network` is in bytes per second and `memory` in bytes, both for one physical core.
    """
    published = published_marks()
    families: dict[tuple[str, str], list[InstanceType]] = {}
    for instance in instances:
        if not instance.accelerators:
            families.setdefault((instance.provider, instance.family), []).append(instance)
    return [
        _marks(family, types, network, memory, published) for (_, family), types in sorted(families.items())
    ]


def _marks(
    family: str,
    types: list[InstanceType],
    network: float,
    memory: float,
    published: Mapping[str, PublishedMark],
) -> FamilyMarks:
    rates = {each.name: each.network_bytes_per_s_per_core for each in types}
    sizes = {each.name: each.memory_bytes_per_core for each in types}
    network_misses = tuple(name for name, value in rates.items() if value < network)
    memory_misses = tuple(name for name, value in sizes.items() if value < memory)
    return FamilyMarks(
        family=family,
        provider=types[0].provider,
        sizes=len(types),
        network_meets=not network_misses,
        memory_meets=not memory_misses,
        network_lowest=min(rates.values()),
        network_highest=max(rates.values()),
        memory_lowest=min(sizes.values()),
        memory_highest=max(sizes.values()),
        network_misses=network_misses,
        memory_misses=memory_misses,
        current=any(each.current for each in types),
        published=published.get(family) if types[0].provider == "aws" else None,
    )


def published_marks() -> dict[str, PublishedMark]:
    """Return the marks of paper 002's 14 families (002.t3), by family."""
    return {
        family: PublishedMark(network == "1", memory == "1", fact)
        for family, network, memory, fact in rows("published-marks.csv", MARK_COLUMNS)
    }
