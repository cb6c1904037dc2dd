"""Scenarios of the model's benchmark: nodes with streams of launches on one shared file system."""

from __future__ import annotations

import random
from math import inf
from typing import Any

from gridwright.model.simulate import (
    Activity,
    Phase,
    Profile,
    Scenario,
    SimulatedNode,
    SimulatedRoute,
    Stream,
)

CORES = 16.0
NIC = 1250e6
DISK = 800e6
SHARED_PER_NODE = 500e6
"""Less than the NICs pass, so that the shared file system binds while many read."""
CORE_UNITS = 1e9
"""SimGrid counts whole units: a core second is this many."""
STREAMS = 20
LAUNCHES = 5


def grid(nodes: int, seed: int = 1) -> Scenario:
    """A grid of `nodes` with 20 streams of 5 launches each; no two profiles are the same.

    The first two resources are the file system's read and write limits, which all nodes share; each node
    has cores, a NIC for each direction and a disk of its own.
    """
    chance = random.Random(seed)  # noqa: S311 - a scenario, no secret
    capacities = [SHARED_PER_NODE * nodes, SHARED_PER_NODE / 2 * nodes]
    made = []
    for _ in range(nodes):
        cores, received, sent, disk = range(len(capacities), len(capacities) + 4)
        capacities += [CORES, NIC, NIC, DISK]
        made.append(
            SimulatedNode(
                {
                    "cpu": SimulatedRoute(((cores, 1.0),)),
                    "data.read": SimulatedRoute(((0, 1.0), (received, 1.0)), cap=900e6),
                    "data.write": SimulatedRoute(((1, 1.0), (sent, 1.0)), cap=700e6),
                    "work.read": SimulatedRoute(((disk, 1.0),)),
                    "work.write": SimulatedRoute(((disk, 2.0),)),
                }
            )
        )
    profiles = tuple(profile(chance) for _ in range(max(100, nodes * STREAMS // 4)))
    streams = tuple(
        Stream(
            node,
            tuple(chance.randrange(len(profiles)) for _ in range(LAUNCHES)),
            start_s=chance.uniform(0.0, 30.0),
        )
        for node in range(nodes)
        for _ in range(STREAMS)
    )
    return Scenario(tuple(capacities), tuple(made), profiles, streams)


def profile(chance: random.Random) -> Profile:
    """A launch of five phases: it reads while it computes, sorts on its disk, and writes its result."""

    def amount(mean: float) -> float:
        return chance.expovariate(1.0 / mean)

    def phase(*work: tuple[str, float]) -> Phase:
        threads = float(chance.choice((1, 1, 2, 4)))
        seconds = amount(8.0)
        return (Activity("cpu", seconds, cap=threads), *(Activity(kind, amount(mean)) for kind, mean in work))

    return (
        phase(("data.read", 1.5e9)),
        phase(("data.read", 1.0e9), ("work.write", 0.3e9)),
        phase(("work.read", 0.3e9), ("work.write", 0.3e9)),
        phase(("work.read", 0.3e9), ("data.write", 0.4e9)),
        phase(("data.write", 0.4e9)),
    )


def document(scenario: Scenario) -> dict[str, Any]:
    """The same grid for SimGrid, as tests/support/simgrid_oracle.py reads it.

    Every use of a resource is a link's; cores are a host of one-core executions, so that threads become a
    flow's cap: a route for each node, kind and cap, over a link of its own.
    """
    routes: dict[tuple[Any, ...], int] = {}

    def activity(node: int, work: Activity) -> list[Any]:
        its = scenario.nodes[node].routes[work.kind]
        cap = min(its.cap, work.cap)
        links = tuple(resource for resource, times in its.uses for _ in range(round(times)))
        scale = CORE_UNITS if work.kind == "cpu" else 1.0
        key = (node, cap * scale, links)
        return ["comm", routes.setdefault(key, len(routes)), round(work.amount * scale)]

    streams = [
        {
            "start": stream.start_s,
            "host": 0,
            "phases": [
                [activity(stream.node, work) for work in phase]
                for launch in stream.launches
                for phase in scenario.profiles[launch]
            ],
        }
        for stream in scenario.streams
    ]
    cores = {resource for node in scenario.nodes for resource, _ in node.routes["cpu"].uses}
    return {
        "links": [
            capacity * (CORE_UNITS if resource in cores else 1.0)
            for resource, capacity in enumerate(scenario.capacities)
        ],
        "hosts": [[1, 1e9]],
        "disks": [],
        "routes": [[0, None if cap == inf else cap, list(links)] for _, cap, links in routes],
        "streams": streams,
    }
