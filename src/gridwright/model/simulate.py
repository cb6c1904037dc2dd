"""Launches over time on nodes that share resources: the native simulation with types.

A launch goes through the phases of its profile one after another. The activities of a phase run at the
same time, and the phase ends with the slowest: that is how computation and I/O overlap. At every moment
the rates of all activities are the weighted max-min fair ones of `gridwright.model.chains`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, overload

from gridwright import _native

TOLERANCE = 0.002
"""By which part the level of a full shared resource may be off by default; see `simulate`."""


@dataclass(frozen=True, slots=True)
class SimulatedRoute:
    """What activities of one kind use on one node.

    `uses` has pairs of a resource (its index) and how much of it one unit of rate takes; `cap` is the
    highest rate of one activity, such as one stream's limit, in bytes per second or cores.
    """

    uses: tuple[tuple[int, float], ...]
    cap: float = inf


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node: by kind of activity ("cpu", "data.read"), the route of such activities there."""

    routes: Mapping[str, SimulatedRoute]


@dataclass(frozen=True, slots=True)
class Activity:
    """An amount of work of one kind, in bytes or core seconds; an amount of zero takes no time.

    `cap` is the highest rate of this activity, for computation its threads. Where it competes, it gets
    a rate in proportion to `weight`.
    """

    kind: str
    amount: float
    cap: float = inf
    weight: float = 1.0


Phase = tuple[Activity, ...]
"""Activities that run at the same time."""
Profile = tuple[Phase, ...]
"""What a launch does: phases one after another."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Launches that run back to back on a node, by index of their profiles; all of them `repeat` times."""

    node: int
    launches: tuple[int, ...]
    start_s: float = 0.0
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated. Capacities are in bytes per second, or cores."""

    capacities: tuple[float, ...]
    nodes: tuple[SimulatedNode, ...]
    profiles: tuple[Profile, ...]
    streams: tuple[Stream, ...]


class SimulatedWait(NamedTuple):
    """Seconds in which a phase's slowest activity was of this kind and bound by this resource.

    `bound_by` is None where a cap bound it: the route's or the activity's own.
    """

    kind: str
    bound_by: int | None
    seconds: float


class SimulatedLaunch(NamedTuple):
    """One launch as it was simulated; `waits` add up to its real time."""

    stream: int
    node: int
    profile: int
    start_s: float
    end_s: float
    waits: tuple[SimulatedWait, ...]

    @property
    def real_s(self) -> float:
        """Real time in seconds."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Launches(Sequence[SimulatedLaunch]):
    """All launches: those of the first stream in their order, then those of the second, and so on.

    Held in columns, which are public for sums over many launches; a launch is made when it is asked for.
    """

    streams: tuple[Stream, ...] = field(repr=False)
    kinds: tuple[str, ...]
    start_s: array[float] = field(repr=False)
    end_s: array[float] = field(repr=False)
    stream: array[int] = field(repr=False)
    first: tuple[int, ...] = field(repr=False)
    wait_ends: array[int] = field(repr=False)
    wait_kind: array[int] = field(repr=False)
    wait_bound_by: array[int] = field(repr=False)
    wait_s: array[float] = field(repr=False)

    def __len__(self) -> int:
        return len(self.start_s)

    def __iter__(self) -> Iterator[SimulatedLaunch]:
        return (self._launch(number) for number in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> SimulatedLaunch: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SimulatedLaunch, ...]: ...
    def __getitem__(self, index: int | slice) -> SimulatedLaunch | tuple[SimulatedLaunch, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return tuple(self._launch(number) for number in numbers)
        return self._launch(numbers)

    def _launch(self, number: int) -> SimulatedLaunch:
        stream = self.stream[number]
        of = self.streams[stream]
        waits = range(self.wait_ends[number - 1] if number else 0, self.wait_ends[number])
        return SimulatedLaunch(
            stream=stream,
            node=of.node,
            profile=of.launches[(number - self.first[stream]) % len(of.launches)],
            start_s=self.start_s[number],
            end_s=self.end_s[number],
            waits=tuple(self._wait(wait) for wait in waits),
        )

    def _wait(self, number: int) -> SimulatedWait:
        bound_by = self.wait_bound_by[number]
        kind = self.kinds[self.wait_kind[number]]
        return SimulatedWait(kind, bound_by if bound_by >= 0 else None, self.wait_s[number])


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """What came of a simulation.

    `end_s` is when the last launch ended. `rates` has the mean rate of each kind of activity in bins of
    `bin_s` seconds from 0 to `end_s`, `watched` the mean use of each watched resource in the same bins.
    `utilisation` is, for each resource, the part of its capacity that was used from 0 to `end_s`.
    `events` counts the activities that ended, `solutions` how often the rates of all nodes that share
    resources were found anew together.
    """

    launches: Launches
    end_s: float
    bin_s: float
    rates: Mapping[str, tuple[float, ...]]
    watched: Mapping[int, tuple[float, ...]]
    utilisation: tuple[float, ...]
    events: int
    solutions: int


def simulate(
    scenario: Scenario, *, tolerance: float = TOLERANCE, bins: int = 100, watch: Sequence[int] = ()
) -> SimulationOutcome:
    """Simulate all launches to their end.

    With `tolerance=0` the rates of every moment are exact up to rounding. With a tolerance, the nodes that
    share a resource are solved together only when the resource's level (rate over weight of those that it
    binds) is off by more than that part of it, to first order, or when a shared resource that was not
    full is overdrawn by more than that part of its capacity; a node's own resources are always exact for
    the levels of the shared ones. With fewer than 1 / `tolerance` flows bound by a resource each change
    is too large to be let pass, so the result is exact. Time grows no faster than n log n in launches
    and nodes as long as the streams of one node stay as many; Ctrl-C interrupts it.

    Raises:
        ValueError: what cannot be simulated, one problem per line: a number that is not positive (amounts
            and starts may be zero, capacities and caps infinite), an index out of range, work without a
            route on its node, or with nothing finite that bounds it.
    """
    kinds = tuple(
        sorted({kind for node in scenario.nodes for kind in node.routes} | _used(scenario.profiles))
    )
    native = _native.simulate_launches(_packed(scenario, kinds), tolerance, bins, list(watch))
    launches = _launches(scenario, kinds, native)
    end_s = max(launches.end_s, default=0.0)
    return SimulationOutcome(
        launches=launches,
        end_s=end_s,
        bin_s=native.bin_s,
        rates={kind: tuple(rates) for kind, rates in zip(kinds, native.class_rates, strict=True)},
        watched={n: tuple(rates) for n, rates in zip(watch, native.watched_rates, strict=True)},
        utilisation=tuple(
            taken / capacity / end_s if end_s else 0.0
            for taken, capacity in zip(native.taken, scenario.capacities, strict=True)
        ),
        events=native.events,
        solutions=native.solutions,
    )


class Nights:
    """Launches in streams that all start at once, to be simulated on many grids, one after the other.

    What launches do crosses into the native part once; of each simulation only its end comes back.
    """

    def __init__(self, profiles: Sequence[Profile], streams: Sequence[Sequence[int]]) -> None:
        self._kinds = tuple(sorted(_used(profiles)))
        self._native = _native.Nights(self._kinds, _packed_profiles(profiles, self._kinds), streams)

    def end_s(
        self,
        capacities: Sequence[float],
        nodes: Sequence[SimulatedNode],
        places: Sequence[int],
        until_s: float = inf,
    ) -> tuple[float | None, int]:
        """When the last launch ends, in seconds, and how many activities ended until that was known.

        It is exact, as `simulate` with `tolerance=0`. `places` has the node of each stream. None where it
        ends after `until_s`, which is known early: as soon as what is left cannot be done by then.
        Raises ValueError as `simulate` does.
        """
        return self._native.end_s(capacities, _packed_nodes(nodes, self._kinds), places, until_s)


def _used(profiles: Sequence[Profile]) -> set[str]:
    return {activity.kind for profile in profiles for phase in profile for activity in phase}


def _packed(scenario: Scenario, kinds: tuple[str, ...]) -> _native.PackedScenario:
    return {
        "capacities": scenario.capacities,
        "classes": kinds,
        "nodes": _packed_nodes(scenario.nodes, kinds),
        "profiles": _packed_profiles(scenario.profiles, kinds),
        "streams": [(s.node, s.start_s, s.launches, s.repeat) for s in scenario.streams],
    }


def _packed_nodes(
    nodes: Sequence[SimulatedNode], kinds: tuple[str, ...]
) -> list[list[tuple[tuple[tuple[int, float], ...], float] | None]]:
    routes = [[node.routes.get(kind) for kind in kinds] for node in nodes]
    return [[(route.uses, route.cap) if route else None for route in node] for node in routes]


def _packed_profiles(
    profiles: Sequence[Profile], kinds: tuple[str, ...]
) -> list[list[list[tuple[int, float, float, float]]]]:
    number = {kind: index for index, kind in enumerate(kinds)}
    return [
        [[(number[a.kind], a.amount, a.cap, a.weight) for a in phase] for phase in profile]
        for profile in profiles
    ]


def _launches(scenario: Scenario, kinds: tuple[str, ...], native: _native.Simulation) -> Launches:
    stream: array[int] = array("I")
    first = []
    for number, of in enumerate(scenario.streams):
        first.append(len(stream))
        stream.extend([number] * (len(of.launches) * of.repeat))
    return Launches(
        streams=scenario.streams,
        kinds=kinds,
        start_s=array("d", native.start_s),
        end_s=array("d", native.end_s),
        stream=stream,
        first=tuple(first),
        wait_ends=array("I", native.wait_ends),
        wait_kind=array("I", native.wait_class),
        wait_bound_by=array("i", native.wait_bound_by),
        wait_s=array("d", native.wait_s),
    )
