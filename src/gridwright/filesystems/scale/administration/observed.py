"""A cluster as its own commands tell it, by rows of -Y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.scale.administration.y_format import records

Ask = Callable[..., "str | None"]
"""Runs a command by its name and words; what it printed, None where it says that there is no such thing."""


@dataclass(frozen=True)
class ObservedNode:
    """A node of the cluster."""

    is_quorum: bool
    is_manager: bool
    licence: str
    """server, client, or none."""
    state: str
    """Of its daemon: active, arbitrating, down, unknown."""


@dataclass(frozen=True)
class ObservedNsd:
    """A disk of the cluster."""

    servers: tuple[str, ...]
    filesystem: str
    """Empty where none has it."""


@dataclass(frozen=True)
class ObservedCluster:
    """What is there; `name` is empty where the node is in no cluster."""

    name: str = ""
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    node_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nsds: Mapping[str, ObservedNsd] = field(default_factory=dict)
    settings: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Values by attribute and node class; the class is empty for all nodes."""
    filesystems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """NSDs of each file system."""
    mounted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Nodes that have each file system mounted."""

    @property
    def tiebreakers(self) -> tuple[str, ...]:
        """NSDs that decide between two quorum nodes."""
        value = self.settings.get(("tiebreakerDisks", ""), "no")
        return () if value in ("no", "") else tuple(value.split(";"))

    @property
    def active(self) -> frozenset[str]:
        """Nodes whose daemon works."""
        return frozenset(name for name, each in self.nodes.items() if each.state == "active")


def observe(ask: Ask) -> ObservedCluster:
    """Ask the commands; those of file systems only where there are such."""
    listed = ask("mmlscluster", "-Y")
    rows = records(listed) if listed is not None else {}
    if not rows.get("clusterSummary"):
        return ObservedCluster()
    nsds = _nsds(ask)
    filesystems = tuple(dict.fromkeys(each.filesystem for each in nsds.values() if each.filesystem))
    return ObservedCluster(
        name=rows["clusterSummary"][0]["clusterName"],
        nodes=_nodes(rows.get("clusterNode", []), ask),
        node_classes=_classes(ask),
        nsds=nsds,
        settings=_settings(ask),
        filesystems={
            name: tuple(disk for disk, each in nsds.items() if each.filesystem == name)
            for name in filesystems
        },
        mounted={name: _mounted(ask, name) for name in filesystems},
    )


def _nodes(rows: list[dict[str, str]], ask: Ask) -> dict[str, ObservedNode]:
    states = {each["nodeName"]: each["state"] for each in _only(ask("mmgetstate", "-a", "-Y"))}
    licences = {each["nodeName"]: each["designatedLicense"] for each in _only(ask("mmlslicense", "-Y"))}
    return {
        each["adminNodeName"]: ObservedNode(
            is_quorum="quorum" in each["designation"].split("Manager")[0].lower(),
            is_manager="manager" in each["designation"].lower(),
            licence=licences.get(each["adminNodeName"], "none").lower(),
            state=states.get(each["adminNodeName"], "unknown"),
        )
        for each in rows
    }


def _classes(ask: Ask) -> dict[str, tuple[str, ...]]:
    rows = _only(ask("mmlsnodeclass", "--user", "-Y"))
    return {each["nodeClass"]: tuple(sorted(each["memberNodes"].split(","))) for each in rows}


def _nsds(ask: Ask) -> dict[str, ObservedNsd]:
    rows = _only(ask("mmlsnsd", "-Y"))
    return {
        each["diskName"]: ObservedNsd(
            tuple(name for name in each["serverList"].split(",") if name), each["fileSystem"]
        )
        for each in rows
    }


def _settings(ask: Ask) -> dict[tuple[str, str], str]:
    rows = _only(ask("mmlsconfig", "-Y"))
    return {(each["configParameter"], each["nodeList"]): each["value"] for each in rows}


def _mounted(ask: Ask, filesystem: str) -> frozenset[str]:
    return frozenset(each["nodeName"] for each in _only(ask("mmlsmount", filesystem, "-L", "-Y")))


def _only(printed: str | None) -> list[dict[str, str]]:
    """The rows of a command with one kind of them."""
    return [row for rows in records(printed or "").values() for row in rows]
