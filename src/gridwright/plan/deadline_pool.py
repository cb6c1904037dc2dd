"""Which candidates are worth a simulation: those that no cheaper one outdoes in every capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import ge

from gridwright.catalog import InstanceType
from gridwright.filesystems.disks import store_rates
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.plan.candidates import Candidate
from gridwright.plan.node_side import NETWORKED
from gridwright.plan.search import order

NodeRates = tuple[float, float, float]
"""Of a node, in bytes per second: its network, its volumes at most, its instance store."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A candidate with its capacities; those of one `sharing` have every library in the same place.

    `capacities` are cores, network and storage, rates in bytes per second and 0 where there is none. Fewer
    nodes are better at the same capacity in all, since more jobs share what a node has.
    """

    candidate: Candidate
    sharing: tuple[tuple[str, str], ...]
    capacities: tuple[float, ...]

    @property
    def cores(self) -> float:
        """Cores that jobs can use."""
        return self.capacities[1]

    def in_turns_s(self, cpu_s: float, sizes: Mapping[str, float]) -> float:
        """How long so much computing, then moving the bytes of each library takes, one after the other.

        It is no bound: it says which of two looks faster.
        """
        _, cores, network, volumes, shared, scratch, store = self.capacities
        ways = {"volumes": volumes, "shared": shared, "scratch": scratch, "instance-store": store}
        found = cpu_s / cores
        for library, place in self.candidate.places.items():
            size = sizes.get(library, 0.0)
            found += size / network if place in NETWORKED else 0.0
            found += size / ways[place] if ways.get(place) else 0.0
        return found

    def outdoes(self, other: Contender) -> bool:
        """Whether this has no less of any capacity.

        More of everything ends a night no later as a rule; jobs that meet otherwise can make it a little
        later, so a cheaper design may be passed over by that little.
        """
        return self.sharing == other.sharing and all(map(ge, self.capacities, other.capacities))


class Better:
    """Contenders, to ask whether one of them outdoes another; only those of its sharing are looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], list[tuple[float, ...]]] = {}

    def add(self, one: Contender) -> None:
        """Take one in."""
        self._known.setdefault(one.sharing, []).append(one.capacities)

    def outdo(self, other: Contender) -> bool:
        """Whether one of them outdoes another."""
        known = self._known.get(other.sharing)
        if known is None:
            return False
        nodes, cores, network, volumes, shared, scratch, store = other.capacities
        # The last that was taken in is most like this one: both cost about the same. Millions are
        # compared, and one comparison after the other is three times as fast as all of them at once.
        for more in reversed(known):
            if (
                more[1] >= cores
                and more[2] >= network
                and more[0] >= nodes
                and more[4] >= shared
                and more[3] >= volumes
                and more[5] >= scratch
                and more[6] >= store
            ):
                return True
        return False


@dataclass(slots=True)
class Pool:
    """Chooses who is simulated. More nodes than `most_nodes` and cores than `most_cores` find no job."""

    most_nodes: float
    most_cores: float
    _nodes: dict[str, NodeRates] = field(default_factory=dict)

    def worth_simulating(self, candidates: Iterable[Candidate]) -> list[Contender]:
        """Those that no cheaper one outdoes, by cost."""
        kept = Better()
        found: list[Contender] = []
        for candidate in sorted(candidates, key=order):
            one = self.contender(candidate)
            if not kept.outdo(one):
                kept.add(one)
                found.append(one)
        return found

    def contender(self, one: Candidate) -> Contender:
        """A candidate with what the jobs can use of it."""
        network, attached, store = self._rates_of(one.instance)
        count = min(float(one.count), self.most_nodes)
        volumes = min(one.volumes.bytes_per_s, attached) if one.volumes else 0.0
        has_store = "instance-store" in one.places.values()
        return Contender(
            one,
            _sharing(one),
            (
                -count,
                min(one.instance.cores * count, self.most_cores),
                network * count,
                volumes * count,
                one.shared.bytes_per_s if one.shared else 0.0,
                one.scratch.bytes_per_s if one.scratch else 0.0,
                store * count if has_store else 0.0,
            ),
        )

    def _rates_of(self, instance: InstanceType) -> NodeRates:
        if instance.name not in self._nodes:
            rates = store_rates(instance.instance_store) if instance.instance_store else None
            store = min(rates.values()) if rates else 0.0
            limit = volume_limit(instance) or float("inf")
            self._nodes[instance.name] = (steady_network(instance), limit, store)
        return self._nodes[instance.name]


def _sharing(one: Candidate) -> tuple[tuple[str, str], ...]:
    """Where each library lives; kept file systems of each node are compared on nodes of one type alone.

    A network that volumes share passes its rate in both directions together, others in each: the same rate
    is less there.
    """
    homes = {name: one.homes.get(name, place) for name, place in one.places.items()}
    nodes = {"nodes": one.instance.name} if "kept-local" in one.places.values() else {}
    network = {"network": "shared with volumes"} if shares_network(one.instance) else {}
    return tuple(sorted({**homes, **nodes, **network}.items()))
