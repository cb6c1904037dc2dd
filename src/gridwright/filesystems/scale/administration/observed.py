"""A cluster as its own commands tell it, by rows of -Y. Nodes run this with Python 3.9.

Rows have colons, under headers that name their columns: `command:kind:HEADER:version:reserved:reserved:
column:...`, then `command:kind:0:1:::value:...`; values have special characters as %XX (IBM Storage Scale,
mmhealth and mmlscluster). Columns are those of real clusters' output as tools of others read it (looked up
2026-11-27).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote


class ScaleError(Exception):
    """What did not succeed, in words for administrators."""


_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class NodeNames:
    """The names that the grid has for nodes: commands print some with their domain, and some without."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = tuple(known)

    def __call__(self, printed: str) -> str:
        """The grid's name for a printed one; the printed one itself where the grid has none."""
        if printed in self._known:
            return printed
        alike = [each for each in self._known if short(each) == short(printed)]
        return alike[0] if len(alike) == 1 else printed


def short(name: str) -> str:
    """A name without its domain."""
    return name.partition(".")[0]


def same_value(one: str, other: str) -> bool:
    """Whether two values of an attribute are the same: 16M is 16777216."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    text = value.strip()
    number, unit = text[:-1], text[-1:].upper()
    if unit in _UNITS and number.isascii() and number.isdecimal():
        return str(int(number) * _UNITS[unit])
    return text.lower()


SPECIAL = ":%\n"
"""Characters of a value that are written as %XX."""


def records(printed: str) -> dict[str, list[dict[str, str]]]:
    """Rows by their kind, which is empty for commands with one kind alone, each as column to value.

    Lines that are no rows, and rows before a header of their kind, are passed over.
    """
    columns: dict[str, list[str]] = {}
    found: dict[str, list[dict[str, str]]] = {}
    for line in printed.splitlines():
        fields = line.split(":")
        if len(fields) < 4 or not fields[0].startswith("mm"):
            continue
        kind = fields[1]
        if fields[2] == "HEADER":
            columns[kind] = fields[3:]
        elif kind in columns:
            found.setdefault(kind, []).append(dict(zip(columns[kind], map(unquote, fields[3:]))))  # noqa: B905 - 3.9
    return found


def encoded(value: str) -> str:
    """A value as rows have it."""
    return "".join(quote(each, safe="") if each in SPECIAL else each for each in value)


Ask = Callable[..., "str | None"]
"""Runs a command by its name and words; what it printed, None where it says that there is no such thing."""
Probe = Callable[[Collection[str]], Mapping[str, "str | None"]]
"""Asks nodes over ssh which cluster they are in: its name, empty for none, None of a node that is silent."""


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
    elsewhere: Mapping[str, str | None] = field(default_factory=dict)
    """What nodes say themselves (`Probe`): those that are not in the cluster, or that it does not reach."""

    @property
    def tiebreakers(self) -> tuple[str, ...]:
        """NSDs that decide between two quorum nodes."""
        value = self.settings.get(("tiebreakerDisks", ""), "no")
        return () if value in ("no", "") else tuple(value.split(";"))

    @property
    def active(self) -> frozenset[str]:
        """Nodes whose daemon works."""
        return frozenset(name for name, node in self.nodes.items() if node.state == "active")

    @property
    def silent(self) -> frozenset[str]:
        """Nodes that do not answer."""
        return frozenset(name for name, cluster in self.elsewhere.items() if cluster is None)

    @property
    def blank(self) -> frozenset[str]:
        """Nodes of the cluster that know nothing of it: machines that took a dead one's place."""
        return frozenset(
            name for name, cluster in self.elsewhere.items() if not cluster
        ) & self.nodes.keys() - (self.silent)


def observe(ask: Ask, desired: Collection[str], probe: Probe) -> ObservedCluster:
    """Ask the commands; `desired` are the grid's names of the nodes. Raises ScaleError."""
    named = NodeNames(desired)
    listed = ask("mmlscluster", "-Y")
    if listed is None:
        return ObservedCluster(elsewhere=probe(desired))
    rows = records(listed)
    if not rows.get("clusterSummary"):
        raise ScaleError("mmlscluster -Y tells no cluster, and not that there is none")
    try:
        nsds = _nsds(ask, named)
        nodes = _nodes(rows.get("clusterNode", []), ask, named)
        filesystems = tuple(dict.fromkeys(nsd.filesystem for nsd in nsds.values() if nsd.filesystem))
        return ObservedCluster(
            name=rows["clusterSummary"][0]["clusterName"],
            nodes=nodes,
            node_classes=_classes(ask, named),
            nsds=nsds,
            settings=_settings(ask),
            filesystems={
                name: tuple(disk for disk, nsd in nsds.items() if nsd.filesystem == name)
                for name in filesystems
            },
            mounted={name: _mounted(ask, name, named) for name in filesystems},
            elsewhere=probe([name for name in desired if _is_out_of_sight(nodes.get(name))]),
        )
    except KeyError as column:
        raise ScaleError(f"a command of Spectrum Scale printed no column {column} with -Y") from None


def _is_out_of_sight(node: ObservedNode | None) -> bool:
    return node is None or node.state == "unknown"


def _nodes(rows: list[dict[str, str]], ask: Ask, named: NodeNames) -> dict[str, ObservedNode]:
    states = {named(each["nodeName"]): each["state"] for each in _only(ask("mmgetstate", "-a", "-Y"))}
    licences = {
        named(each["nodeName"]): each["designatedLicense"] for each in _only(ask("mmlslicense", "-L", "-Y"))
    }
    found = {}
    for row in rows:
        name, designation = named(row["adminNodeName"]), row["designation"].lower()
        found[name] = ObservedNode(
            is_quorum=designation.startswith("quorum"),
            is_manager="manager" in designation,
            # An asterisk: what the node does needs more than it has.
            licence=licences.get(name, "none").lower().strip(" *"),
            state=states.get(name, "unknown"),
        )
    return found


def _classes(ask: Ask, named: NodeNames) -> dict[str, tuple[str, ...]]:
    found = {}
    for each in _only(ask("mmlsnodeclass", "--user", "-Y")):
        members = _column(each, "memberNodes", "allMembers")
        names = tuple(sorted(named(name) for name in members.split(",") if name))
        found[_column(each, "nodeClass", "nodeClassName")] = names
    return found


def _column(row: Mapping[str, str], *names: str) -> str:
    """The first of these columns that the row has. Raises KeyError."""
    for name in names:
        if name in row:
            return row[name]
    raise KeyError(" or ".join(names))


def _nsds(ask: Ask, named: NodeNames) -> dict[str, ObservedNsd]:
    found = {}
    for each in _only(ask("mmlsnsd", "-Y")):
        servers = tuple(named(name) for name in each["serverList"].split(",") if name)
        filesystem = "" if "free disk" in each["fileSystem"] else each["fileSystem"]
        found[each["diskName"]] = ObservedNsd(servers, filesystem)
    return found


def _settings(ask: Ask) -> dict[tuple[str, str], str]:
    """By attribute and class: classes with one value share a row."""
    return {
        (each["configParameter"], node_class): each["value"]
        for each in _only(ask("mmlsconfig", "-Y"))
        for node_class in each["nodeList"].split(",")
    }


def _mounted(ask: Ask, filesystem: str, named: NodeNames) -> frozenset[str]:
    rows = _only(ask("mmlsmount", filesystem, "-L", "-Y"))
    return frozenset(named(row["nodeName"]) for row in rows if row["nodeName"])


def _only(printed: str | None) -> list[dict[str, str]]:
    """The rows of a command with one kind of them."""
    return [row for rows in records(printed or "").values() for row in rows]
