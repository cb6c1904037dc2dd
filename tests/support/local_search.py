"""A search that knows nothing of how the planner works: it changes a design a little, again and again."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems.lustre.rates import most_targets
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.grid_spec import spec_document
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

Document = dict[str, Any]
UPHILL = 1.05
"""How much dearer than the best a step may be, so that two changes together can be found."""


def gib_of(size: str) -> int:
    """A size of a spec in whole GiB."""
    return round(Bytes.parse(size) / 2**30)


class LocalSearch:
    """Looks for a grid that meets the requirements of a design and costs less."""

    def __init__(
        self,
        design: GridSpec,
        catalog: Catalog,
        nodes: list[InstanceType],
        servers: list[InstanceType],
        seed: int,
    ) -> None:
        self.catalog, self.nodes, self.servers = catalog, nodes, servers
        self.random = random.Random(seed)  # noqa: S311 - moves of a search
        self.best = self.here = spec_document(design)
        self.lowest = self.cost(self.here) or 0.0

    def run(self, moves: int) -> float:
        """The least cost per hour that so many moves came to."""
        for _ in range(moves):
            there = copy.deepcopy(self.here)
            self.random.choice(self.moves(there))(there)
            usd = self.cost(there)
            if usd is None or usd > self.lowest * UPHILL:
                continue
            self.here = there
            if usd < self.lowest:
                self.best, self.lowest = there, usd
        return self.lowest

    def cost(self, document: Document) -> float | None:
        """USD per hour; None for what is no grid, or does not meet the requirements."""
        try:
            spec = GridSpec.model_validate(document, context={"base": Path("/")})
            model = grid_model(spec, self.catalog)
            met = predict(model).met
        except (GridwrightError, ValueError):
            return None
        if not all(self.has_memory(each) for each in document["filesystems"].values()):
            return None
        return model.usd_per_hour if met else None

    def has_memory(self, system: Document) -> bool:
        """Whether Lustre servers have the memory for their targets, of which `predict` says nothing."""
        if system["type"] != "lustre":
            return True
        server = self.catalog.instance(system["oss"]["instance"], "aws")
        return bool(system["oss"]["disks"]["count"] <= most_targets(server))

    def moves(self, document: Document) -> list[Callable[[Document], None]]:
        """What may be changed."""
        found: list[Callable[[Document], None]] = [self.other_nodes, self.one_node_more_or_less]
        for system in document["filesystems"].values():
            if system["type"] == "fsx-lustre":
                found += [partial(self.on, system, self.fsx)] * 3
            if system["type"] == "lustre":
                found += [partial(self.on, system["oss"], self.oss)] * 2
                found += [partial(self.on, system["oss"]["disks"], self.targets)] * 4
            if system["type"] == "local" and system["disks"]["type"] != "instance-store":
                found += [partial(self.on, system["disks"], self.disks)] * 4
        return found

    @staticmethod
    def on(part: Document, change: Callable[[Document], None], document: Document) -> None:
        """Change a part of the document that `moves` was asked about."""
        change(part)

    def other_nodes(self, document: Document) -> None:
        """Nodes of another type, as many as the cores need."""
        one = self.random.choice(self.nodes)
        cores = document["requirements"]["cores"]
        document["nodes"]["compute"] = {"instance": one.name, "count": -(-cores // one.cores)}

    def one_node_more_or_less(self, document: Document) -> None:
        """Another number of nodes."""
        document["nodes"]["compute"]["count"] = max(1, self.near(document["nodes"]["compute"]["count"]))

    def near(self, number: int) -> int:
        """A whole number that is a little more or less."""
        return number + self.random.choice((-3, -2, -1, 1, 2, 3))

    def fsx(self, system: Document) -> None:
        """Another size, throughput or deployment."""
        what = self.random.choice(("capacity", "throughput", "deployment"))
        deployments = [one for one in self.catalog.managed.values() if one.durable]
        deployment = self.catalog.managed[system["deployment"]]
        if what == "capacity":
            gib = gib_of(system["capacity"])
            system["capacity"] = f"{gib + self.random.choice((-4800, -2400, -1200, 1200, 2400))} GiB"
        elif what == "deployment":
            deployment = self.random.choice(deployments)
            system["deployment"] = deployment.name
        if what != "capacity":
            system["throughput"] = f"{self.random.choice(deployment.tiers) / 1e6:g} MB/s/TiB"

    def oss(self, servers: Document) -> None:
        """Another type or number of servers; the room stays, shared out anew."""
        if self.random.random() < 0.5:
            servers["instance"] = self.random.choice(self.servers).name
        else:
            before = servers["count"]
            servers["count"] = max(1, self.near(before))
            gib = gib_of(servers["disks"]["size"])
            servers["disks"]["size"] = f"{-(-gib * before // servers['count'])} GiB"

    def targets(self, disks: Document) -> None:
        """Another number, size, throughput or type of volumes, spinning disks among them."""
        self.disks(disks, ("gp3", "gp2", "st1"))

    def disks(self, disks: Document, types: Sequence[str] = ("gp3", "gp2")) -> None:
        """Another number, size, throughput or type of volumes."""
        gib, count = gib_of(disks["size"]), disks["count"]
        what = self.random.choice(("count", "size", "throughput", "type"))
        if what == "count":
            # The room stays, shared out anew.
            disks["count"] = min(24, max(1, self.near(count)))
            disks["size"] = f"{-(-gib * count // disks['count'])} GiB"
        elif what == "size":
            scaled = round(gib * self.random.uniform(0.8, 1.2))
            disks["size"] = f"{max(1, self.random.choice((self.near(gib), scaled)))} GiB"
        elif what == "type":
            disks["type"] = self.random.choice(types)
            disks.pop("throughput", None)
            disks.pop("iops", None)
        if disks["type"] == "gp3" and what in ("count", "throughput"):
            mib = int(disks.get("throughput", "125 MiB/s").split()[0])
            disks["throughput"] = f"{max(125, mib + self.random.choice((-20, -5, -1, 1, 5, 20)))} MiB/s"
