"""The state of a lab: its nodes, the services on them, and its file systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition
from gridwright.filesystems.kind import ServerHealth
from gridwright.kernel_files import names_in
from gridwright.providers.filesystem_status import FileSystemStanding, status_lines, status_table
from gridwright.providers.lab.image import other_installation
from gridwright.providers.lab.layout import LabLayout
from gridwright.providers.lab.record import (
    LabRecord,
    NodeRecord,
    Places,
    Standing,
    contents,
    deployed_spec,
    differences,
    missing,
    part_of,
    read,
)
from gridwright.providers.lab.services import ServiceState, running_lab, services_of, states
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.terminal.frame import text_of
from gridwright.services.service import ServiceNode
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.model import GridSpec

# What `up` must not do about a lab that has data: nothing of it goes but by `down`.


def _down(lab: str) -> str:
    """The remedy that deletes, with what it deletes."""
    there = "; ".join(contents(lab))
    return f"run gridwright down, which deletes it: {there}" if there else "run gridwright down"


def refuse_changes(record: LabRecord, spec: GridSpec) -> None:
    """Raise GridwrightError (INPUT) with each difference to the spec that a lab was made from."""
    if changed := differences(record, spec):
        raise GridwrightError(
            *(
                Problem(
                    what=f"lab {spec.name} is {record.standing}, and made from another spec: {each}",
                    where=str(spec.file) if spec.file else None,
                    remedy=f"write it as it was; or {_down(record.lab)}; then gridwright up again",
                )
                for each in changed
            )
        )


def refuse_half_removed(record: LabRecord) -> None:
    """Raise GridwrightError (ENVIRONMENT) for a lab of which part of the data went."""
    raise environment_error(
        f"a gridwright down of lab {record.lab} was not finished, and files of it went",
        where=str(Places(record.lab).home),
        remedy=f"{_down(record.lab)}; then gridwright up makes a new one",
    )


def refuse_other_installation(record: LabRecord) -> None:
    """Raise GridwrightError (ENVIRONMENT) where the nodes of a lab that is up cannot run this Gridwright."""
    if why := made_by_another(record):
        raise environment_error(
            f"lab {record.lab} is up, and cannot be used from here: {why}",
            remedy=f"use that command; or {_down(record.lab)}; then gridwright up makes a new one",
        )


def made_by_another(record: LabRecord) -> str | None:
    """Why the nodes of a lab cannot run this Gridwright; None where they can, or none is up."""
    first = next((node.process for node in record.nodes if node.process and node.up), None)
    return other_installation(first.pid) if first else None


def refuse_missing(record: LabRecord, spec: GridSpec) -> None:
    """Raise GridwrightError (ENVIRONMENT) where a lab, or nodes of it, would be booted without its data."""
    if gone := missing(record, spec):
        raise environment_error(
            f"lab {record.lab} was up, and of its data this is not there: {', '.join(map(str, gone))}",
            remedy=f"mount or put back what holds it, and run gridwright up again; or {_down(record.lab)}",
        )


def refuse_unknown(lab: str) -> None:
    """Raise GridwrightError (ENVIRONMENT) where files are there as of a lab, and no record of it."""
    home = Places(lab).home
    if home.is_symlink() and not home.exists():
        raise environment_error(
            f"lab {lab} has its files elsewhere, and they are not there",
            where=f"{home} -> {home.readlink()}",
            remedy="mount what holds them, and run gridwright up again",
        )
    # A command that is killed while it writes the first record leaves no more than part of that.
    if set(names_in(home)) - {part_of(Places(lab).record).name}:
        raise environment_error(
            f"files of a lab {lab} are here, and no record of it",
            where=str(home),
            remedy=f"put {Places(lab).record.name} back; or move the directory away; or {_down(lab)}",
        )


def no_image(record: LabRecord) -> GridwrightError:
    """The error for a stopped lab whose node image is gone, and cannot be made by this release."""
    return environment_error(
        f"the node image that lab {record.lab} was made with is gone, and this release makes another one",
        where=record.image,
        remedy=f"put it back, or use the release that made the lab; or {_down(record.lab)}",
    )


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
class LabStatus:
    """A lab."""

    lab: str
    state: LabStanding
    network: str | None = None
    nodes: tuple[NodeStatus, ...] = ()
    filesystems: tuple[FileSystemStanding, ...] = ()
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
    columns = columns_of(["node", "role", "address", "state", "services"])
    rows = ((node.name, node.role, node.address, node.state, _services(node)) for node in status.nodes)
    yield rows_table(f"Nodes ({status.network})", columns, rows)
    yield from status_table(status.filesystems)


def _services(node: NodeStatus) -> str:
    return ", ".join(
        each.service if each.lacking is None else f"{each.service} (NOT OK)" for each in node.services
    )


def _lacking(status: LabStatus) -> Iterable[str]:
    if status.power is not None:
        yield status.power
    if status.other_python is not None:
        yield f"{status.other_python}; use that command, or gridwright down and up"
    for node in status.nodes:
        for each in node.services:
            if each.lacking is not None:
                yield f"{node.name}: {each.service}: {each.lacking}"
    yield from status_lines(status.filesystems)


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
) -> FileSystemStanding:
    path = str(filesystem.path)
    if controller is None:
        return FileSystemStanding(name, filesystem.type, path, "the controller is not up")
    found = None
    lacking, total, free = None, None, None
    try:
        kind = kind_of(filesystem)
        if (servers := layout.storage_of(name)) and isinstance(kind, ServerHealth):
            found = kind.server_health(controller.run, servers[0].address)
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
    return FileSystemStanding(name, filesystem.type, path, lacking, total, free, found)
