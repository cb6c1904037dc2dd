"""Random scenarios that both SimGrid and Gridwright's model can express, and the way to ask SimGrid.

A scenario is the JSON document that `simgrid_oracle.py` describes.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from gridwright.model.chains import Flow
from gridwright.model.simulate import Activity, Scenario, SimulatedNode, SimulatedRoute, Stream

PYTHON = "/usr/bin/python3"
"""The Python of Debian's python3-simgrid."""
ORACLE = Path(__file__).with_name("simgrid_oracle.py")

Document = dict[str, Any]


def require_simgrid() -> None:
    """Fail where SimGrid is not installed."""
    found = subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True, check=False, timeout=60)
    if found.returncode:
        pytest.fail("python3-simgrid is missing: tools/debian-packages.sh test installs it")


def ask_simgrid(documents: Sequence[Document]) -> list[Document]:
    """Run all scenarios in one SimGrid process; returns its answers in order."""
    done = subprocess.run(
        [PYTHON, "-W", "ignore", str(ORACLE)],
        input="".join(json.dumps(document) + "\n" for document in documents),
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    answers: list[Document] = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [n for n, answer in enumerate(answers) if "failed" in answer]
    if failed or len(answers) != len(documents):
        raise AssertionError(f"SimGrid failed in {failed}: {done.stderr[-2000:]}")
    return answers


def topology(chance: random.Random) -> Document:
    """Links, hosts, disks, and routes: some over a link twice, some capped, some with a latency."""
    links = [10 ** chance.uniform(7, 9) for _ in range(chance.randint(1, 5))]

    def route() -> list[Any]:
        used = [chance.randrange(len(links)) for _ in range(chance.randint(1, 3))]
        cap = 10 ** chance.uniform(6.5, 8.5) if chance.random() < 0.5 else None
        return [chance.uniform(0.2, 3.0) if chance.random() < 0.3 else 0, cap, used]

    return {
        "links": links,
        "hosts": [
            [chance.randint(1, 8), 10 ** chance.uniform(8.5, 9.5)] for _ in range(chance.randint(1, 3))
        ],
        "disks": [
            [10 ** chance.uniform(7, 9), 10 ** chance.uniform(7, 9)] for _ in range(chance.randint(1, 2))
        ],
        "routes": [route() for _ in range(chance.randint(2, 6))],
    }


def activity(chance: random.Random, document: Document, host: int) -> list[Any]:
    """Something to do on a random resource, or on the stream's host."""
    amount = round(10 ** chance.uniform(7, 9.5))
    what = chance.choice(["comm", "comm", "comm", "exec", "read", "write"])
    if what == "comm":
        return [what, chance.randrange(len(document["routes"])), amount]
    if what == "exec":
        return [what, host, amount, 1.0]
    return [what, chance.randrange(len(document["disks"])), amount]


def course(seed: int) -> Document:
    """Streams of phases that start at different times."""
    chance = random.Random(seed)  # noqa: S311 - a scenario, no secret
    document = topology(chance)

    def phase(host: int) -> list[Any]:
        made = [activity(chance, document, host) for _ in range(chance.randint(1, 3))]
        late = [a for a in made if a[0] == "comm" and document["routes"][a[1]][0]]
        if late:
            return late[:1]
        if len(made) == 1 and made[0][0] == "exec":
            made[0][3] = chance.choice([0.5, 1.0, 2.0, 5.0])
        return made

    document["streams"] = []
    for _ in range(chance.randint(2, 12)):
        host = chance.randrange(len(document["hosts"]))
        start = chance.choice([0.0, chance.uniform(0.0, 20.0)])
        phases = [phase(host) for _ in range(chance.randint(1, 4))]
        document["streams"].append({"start": start, "host": host, "phases": phases})
    return document


def moment(seed: int) -> Document:
    """Flows and computations that all run for long: their rates are read."""
    chance = random.Random(seed)  # noqa: S311 - a scenario, no secret
    document = topology(chance)
    document["probe"] = 20.0
    streams: list[Document] = []
    while len(streams) < 3 + seed % 15:
        host = chance.randrange(len(document["hosts"]))
        made = activity(chance, document, host)
        if made[0] in ("comm", "exec"):
            made[2] = 10**13
            streams.append({"start": 0.0, "host": host, "phases": [[made]]})
    document["streams"] = streams
    return document


def capacities(document: Document) -> tuple[float, ...]:
    """Links, then hosts, then three for each disk: both directions, reading, writing."""
    hosts = [cores * speed for cores, speed in document["hosts"]]
    disks = [figure for read, write in document["disks"] for figure in (max(read, write), read, write)]
    return (*document["links"], *hosts, *disks)


def flow(document: Document, work: list[Any]) -> Flow:
    """What an activity uses, with its weight and cap, as SimGrid's models have it.

    A disk's two directions share a constraint of the faster one's bandwidth; a computation takes one core
    at most; a flow's weight is 1 / latency of its route.
    """
    what, where = work[0], work[1]
    first_disk = len(document["links"]) + len(document["hosts"]) + 3 * where
    if what == "comm":
        latency, cap, links = document["routes"][where]
        uses = tuple((link, 1.0) for link in links)
        return Flow(uses, weight=1.0 / latency if latency else 1.0, cap=cap or inf)
    if what == "exec":
        host = len(document["links"]) + where
        return Flow(((host, 1.0),), weight=work[3], cap=document["hosts"][where][1])
    return Flow(((first_disk, 1.0), (first_disk + (1 if what == "read" else 2), 1.0)))


def scenario(document: Document) -> tuple[Scenario, list[list[int]]]:
    """The scenario for the model, one profile per phase; and the launch that ends each phase."""
    kinds: dict[str, SimulatedRoute] = {"delay": SimulatedRoute((), cap=1.0)}
    profiles: list[tuple[tuple[Activity, ...], ...]] = []
    streams = []
    ends: list[list[int]] = []
    for stream in document["streams"]:
        first = len(profiles)
        ends.append([])
        for phase in stream["phases"]:
            made = []
            latency = 0.0
            for work in phase:
                its = flow(document, work)
                kind = f"{work[0]}-{work[1]}"
                kinds[kind] = SimulatedRoute(its.uses, its.cap)
                made.append(Activity(kind, work[2], weight=its.weight))
                latency = max(latency, document["routes"][work[1]][0] if work[0] == "comm" else 0.0)
            ends[-1].append(len(profiles))
            profiles.append(((Activity("delay", latency),), tuple(made)))
        streams.append(
            Stream(0, tuple(range(first, len(profiles))), start_s=stream["start"]),
        )
    # Nodes of their own, so that what streams share is shared by nodes.
    nodes = tuple(SimulatedNode(kinds) for _ in streams)
    placed = tuple(Stream(n, s.launches, s.start_s) for n, s in enumerate(streams))
    return Scenario(capacities(document), nodes, tuple(profiles), placed), ends
