"""The state of a lab: its nodes, the services on them, and its file systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.table import Table

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition, Health
from gridwright.providers.lab.contents import missing
from gridwright.providers.lab.layout import LabLayout
from gridwright.providers.lab.record import LabRecord, NodeRecord, Standing, read
from gridwright.providers.lab.refusals import made_by_another
from gridwright.providers.lab.serving import ServiceState, running_lab, services_of, states
from gridwright.providers.lab.spec_copy import deployed_spec
from gridwright.report.terminal.frame import framed_table, text_of
from gridwright.services.service import ServiceNode
from gridwright.spec.filesystem import FileSystem

NodeStanding = Literal["up", "partitioned", "powered-off", "powered-down"]
"""powered-down: off until a job waits for it, which is as it should be."""
LabStanding = Literal["not-up"] | Standing
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node."""

    name: str
    role: str
    address: str
    state: NodeStanding
    services: tuple[ServiceState, ...]

    @property
    def serves(self) -> bool:
        """Whether it is up, and nothing is lacking on it."""
        if self.state == "powered-down":
            return True
        return self.state == "up" and all(each.lacking is None for each in self.services)


@dataclass(frozen=True, slots=True)
class LabFileSystemStatus:
    """A file system, as the controller sees it; sizes in bytes."""

    name: str
    type: str
    path: str
    lacking: str | None
    """Why the controller cannot use it, in words; None where it can."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    health: Health | None = None
    """What its servers say; None for a kind that has none, and where they could not be asked."""

    @property
    def condition(self) -> Condition:
        """How well it is."""
        if self.lacking is not None:
            return Condition.BROKEN
        return Condition.HEALTHY if self.health is None else self.health.condition


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab."""

    lab: str
    state: LabStanding
    network: str | None = None
    nodes: tuple[NodeStatus, ...] = ()
    filesystems: tuple[LabFileSystemStatus, ...] = ()
    power: str | None = None
    """What is lacking of what powers nodes on and off; None where nothing is, or no node is powered."""
    missing: tuple[str, ...] = ()
    """Of one that is stopped, paths of its data that are not there any more."""
    other_python: str | None = None
    """Why this Gridwright cannot run on its nodes; None where it can."""

    @property
    def whole(self) -> bool:
        """Whether everything is up and serves."""
        healthy = all(each.condition == Condition.HEALTHY for each in self.filesystems)
        serve = self.power is None and self.other_python is None and all(node.serves for node in self.nodes)
        return self.state == "up" and healthy and serve

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {"whole": self.whole, **asdict(self)}

    def text(self) -> str:
        """Tables of nodes and file systems, then all that is lacking."""
        standing = "is stopped, and not all of its data is there" if self.missing else _STANDING[self.state]
        lines = [f"lab {self.lab} {standing}", *(f"missing of its data: {path}" for path in self.missing)]
        if self.nodes:
            lines += [text_of(*_tables(self)).rstrip("\n"), *_lacking(self)]
        return "\n".join(lines)


_STANDING = {
    "not-up": "is not up",
    "half-made": "is half made, and never was up: run gridwright up or down",
    "half-removed": "is half removed: run gridwright down again",
    "stopped": "is stopped, its data there: gridwright up boots it again, gridwright down deletes it",
    "up": "is up",
}


def _tables(status: LabStatus) -> Iterator[Table]:
    nodes = framed_table(f"Nodes ({status.network})", ["node", "role", "address", "state", "services"], [])
    for node in status.nodes:
        nodes.add_row(node.name, node.role, node.address, node.state, _services(node))
    yield nodes
    if status.filesystems:
        table = framed_table("File systems", ["name", "type", "path", "state"], ["size", "free"])
        for each in status.filesystems:
            table.add_row(each.name, each.type, each.path, each.condition.value, *_sizes(each))
        yield table


def _services(node: NodeStatus) -> str:
    return ", ".join(
        each.service if each.lacking is None else f"{each.service} (NOT OK)" for each in node.services
    )


def _sizes(filesystem: LabFileSystemStatus) -> list[str]:
    sizes = (filesystem.total_bytes, filesystem.free_bytes)
    return ["" if size is None else f"{size / 1e9:.1f} GB" for size in sizes]


def _lacking(status: LabStatus) -> Iterable[str]:
    if status.power is not None:
        yield status.power
    if status.other_python is not None:
        yield f"{status.other_python}; use that command, or gridwright down and up"
    for node in status.nodes:
        for each in node.services:
            if each.lacking is not None:
                yield f"{node.name}: {each.service}: {each.lacking}"
    for filesystem in status.filesystems:
        if filesystem.lacking is not None:
            yield f"file system {filesystem.name}: {filesystem.lacking}"
        for finding in filesystem.health.findings if filesystem.health else ():
            yield f"{finding.level} {finding.name}: file system {filesystem.name}: {finding.text}"
            yield f"  {finding.remedy}"


def status(lab: str) -> LabStatus:
    """Look how a lab stands; nothing is changed. Raises GridwrightError where its record cannot be read."""
    record = read(lab)
    if record is None:
        return LabStatus(lab, "not-up")
    if not record.is_up:
        gone = missing(record, deployed_spec(record)) if record.standing == "stopped" else []
        nodes = tuple(_node(node, ()) for node in record.nodes)
        return LabStatus(lab, record.standing, record.network, nodes, missing=tuple(map(str, gone)))
    spec = deployed_spec(record)
    running = running_lab(record, spec)
    services = states(running, services_of(spec, record.layout))
    powered = spec.powered_nodes()
    nodes = tuple(
        _node(node, tuple(each for each in services if each.node == node.plan.name), powered)
        for node in record.nodes
    )
    power = _power(record, powered)
    controller = running.nodes.get(record.layout.controller.name)
    filesystems = tuple(
        _filesystem(name, filesystem, controller, record.layout)
        for name, filesystem in spec.filesystems.items()
    )
    other = made_by_another(record)
    return LabStatus(lab, "up", record.network, nodes, filesystems, power, other_python=other)


def _power(record: LabRecord, powered: frozenset[str]) -> str | None:
    if not powered or (record.power is not None and record.power.alive):
        return None
    return "what powers nodes on and off does not run: gridwright up starts it"


def _node(
    node: NodeRecord, services: tuple[ServiceState, ...], powered: frozenset[str] = frozenset()
) -> NodeStatus:
    off: NodeStanding = "powered-down" if node.plan.name in powered else "powered-off"
    state: NodeStanding = off if not node.up else "partitioned" if node.partitioned else "up"
    return NodeStatus(node.plan.name, node.plan.role.value, node.plan.address, state, services)


def _filesystem(
    name: str, filesystem: FileSystem, controller: ServiceNode | None, layout: LabLayout
) -> LabFileSystemStatus:
    path = str(filesystem.path)
    if controller is None:
        return LabFileSystemStatus(name, filesystem.type, path, "the controller is not up")
    found = None
    lacking, total, free = None, None, None
    try:
        if servers := layout.storage_of(name):
            found = kind_of(filesystem).server_health(controller.run, servers[0].address)
        mounted = controller.run(["mountpoint", "-q", "--", path], timeout_s=_ANSWER_S)
        if mounted.status:
            lacking = "it is not mounted on the controller"
        else:
            # statfs(2): block size, blocks, and those free for users.
            sizes = controller.run(["stat", "-f", "-c", "%S %b %a", "--", path], timeout_s=_ANSWER_S)
            block, blocks, available = map(int, sizes.stdout.split())
            total, free = block * blocks, block * available
    except GridwrightError as error:
        lacking = f"it does not answer: {error.problems[0].what}"
    except ValueError:
        lacking = "it does not tell its size"
    return LabFileSystemStatus(name, filesystem.type, path, lacking, total, free, found)
