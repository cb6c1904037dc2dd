"""Servers of file systems that a provider makes of its own machines: of a Lustre, or pairs with shared disks.

Machines, addresses and volumes are the provider's. Pure, from the spec alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import ClusterMachine, PairDisk, SharedDiskCluster
from gridwright.filesystems.lustre_client.fields import NOT_SQUASHED
from gridwright.filesystems.provided import LustreServers, SharedDiskServers, requested
from gridwright.services.playbook_role import PlaybookRole
from gridwright.spec.filesystem import INSTANCE_STORE, Disks, Servers
from gridwright.spec.model import GridSpec

LONGEST_FSNAME = 8
"""Longest name of a Lustre (mkfs.lustre(8), --fsname)."""
MOUNTED_BELOW = "/srv/gridwright"
"""Where servers mount their targets."""
SERVER_ROLE = PlaybookRole(
    name="lustre_server",
    task="Serve Lustre",
    when="gridwright_serves_lustre",
    package="gridwright.providers.boot",
)
"""What makes a machine with volumes a server."""
WrongField = tuple[tuple[str, ...], str, str]
"""The field, what is wrong with it, and the remedy."""
_KINDS = {"mgs": "mgt", "mds": "mdt", "oss": "ost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target of a Lustre, on one volume."""

    filesystem: str
    """Name in the spec."""
    fsname: str
    """Name of the Lustre, of at most eight characters."""
    kind: str
    """mgt, mdt (with the mgt, where it is the first one and there is no MGS of its own) or ost."""
    index: int
    with_mgt: bool
    disks: Disks
    """What its volume is like."""

    @property
    def name(self) -> str:
        """Its label: shared-OST0003, shared-MDT0000, MGS."""
        return "MGS" if self.kind == "mgt" else f"{self.fsname}-{self.kind.upper()}{self.index:04x}"

    @property
    def has_mgs(self) -> bool:
        """Whether the management server is on it."""
        return self.kind == "mgt" or self.with_mgt

    def as_document(self) -> dict[str, object]:
        """What the machine that serves it is told."""
        return {
            "name": self.name,
            "kind": self.kind,
            "index": self.index,
            "fsname": self.fsname,
            "with_mgt": self.with_mgt,
            "mount": f"{MOUNTED_BELOW}/{self.name}",
        }


@dataclass(frozen=True, slots=True)
class ServerExamples:
    """What remedies name, in the words of the provider: a metadata server, and disks."""

    mds: str
    disks: str
    volume: str


def built_lustres(spec: GridSpec) -> dict[str, LustreServers]:
    """The file systems whose servers the grid has itself, by name."""
    return requested(spec, LustreServers)


def mount_sources(spec: GridSpec, source_of: Callable[[str], str], services: Iterable[str]) -> dict[str, str]:
    """What nodes mount of file systems that the spec gives no source of, by file system.

    `source_of` tells it of a Lustre on servers of the grid. Clouds name `services`, which they run, when they
    make them, so that each machine is told at its start.
    """
    built = {name: source_of(name) for name in built_lustres(spec)}
    return built | {name: f"{{{{ gridwright_sources['{name}'] }}}}" for name in services}


def fsname(filesystem: str) -> str:
    """The name of a Lustre by that of its file system in the spec: letters, digits, at most eight."""
    return filesystem.replace("-", "")[:LONGEST_FSNAME]


def server_roles(lustre: LustreServers) -> Iterator[tuple[str, Servers]]:
    """Servers by their role, in the order in which they start: mgs, mds, oss."""
    for role, servers in (("mgs", lustre.mgs), ("mds", lustre.mds), ("oss", lustre.oss)):
        if servers is not None:
            yield role, servers


def targets_of_servers(name: str, lustre: LustreServers, role: str, servers: Servers) -> list[list[Target]]:
    """Targets of each server of a role, in the order of its disks; indices go on from server to server."""
    disks, kind = servers.disks, _KINDS[role]
    if disks is None:
        return [[] for _ in range(servers.count)]
    each = disks.count or 1
    return [
        [
            Target(
                filesystem=name,
                fsname=fsname(name),
                kind=kind,
                index=index,
                with_mgt=kind == "mdt" and index == 0 and lustre.mgs is None,
                disks=disks,
            )
            for index in range(number * each, (number + 1) * each)
        ]
        for number in range(servers.count)
    ]


def root_squash_rows(spec: GridSpec, root_nids: Sequence[str]) -> list[dict[str, str]]:
    """What root of a client becomes on each Lustre of own servers, and whose root stays root.

    Values are those of mdt.*.root_squash and mdt.*.nosquash_nids (Lustre Operations Manual, using root
    squash): 0:0 and NONE are what a Lustre has that nothing was set of.
    """
    kept = " ".join(root_nids)
    return [
        {"fsname": fsname(name), "root_squash": "0:0", "nosquash_nids": "NONE"}
        if each.root_squash == NOT_SQUASHED
        else {"fsname": fsname(name), "root_squash": each.root_squash, "nosquash_nids": kept}
        for name, each in built_lustres(spec).items()
    ]


def lustre_problems(spec: GridSpec, examples: ServerExamples) -> Iterator[WrongField]:
    """What cannot be built of each Lustre, whatever machines are used."""
    for name, lustre in built_lustres(spec).items():
        yield from _problems_of(name, lustre, examples)
    seen: dict[str, str] = {}
    for name in built_lustres(spec):
        other = seen.setdefault(fsname(name), name)
        if other != name:
            yield (
                ("filesystems", name),
                f"as a Lustre it would be called {fsname(name)}, like {other}",
                f"give it a name that differs in its first {LONGEST_FSNAME} letters",
            )


def _problems_of(name: str, lustre: LustreServers, examples: ServerExamples) -> Iterator[WrongField]:
    path = ("filesystems", name)
    if lustre.mds is None:
        yield (path, f"Lustre {name} has no metadata server, and cannot be built", f"add mds: {examples.mds}")
    for role, servers in server_roles(lustre):
        if role == "mgs" and servers.count > 1:
            yield (*path, role, "count"), "a Lustre has one management server", "write 1"
        if servers.disks is None:
            yield (
                (*path, role),
                f"the {role.upper()} has no disks, and cannot be built",
                f"add disks: {examples.disks}",
            )
        elif servers.disks.type == INSTANCE_STORE:
            yield (
                (*path, role, "disks", "type"),
                "the disks of an instance are lost with it, and a server's targets must outlive it",
                f"write a type of volume, such as {examples.volume}",
            )


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What a provider has of one cluster: members, its servers first, and the disks that pairs share."""

    machines: Sequence[ClusterMachine]
    disks: Sequence[PairDisk]


def shared_disk_file_systems(spec: GridSpec) -> dict[str, SharedDiskServers]:
    """Those whose servers are pairs with shared volumes, and those that nodes are clients of, by name."""
    return requested(spec, SharedDiskServers)


def server_pairs(first: str, count: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """The number of each pair, from 1 on, with its servers: 1 and 2 are a pair, 3 and 4 the next."""
    for pair in range(1, count // 2 + 1):
        yield pair, (f"{first}{2 * pair - 1}", f"{first}{2 * pair}")


def cluster_documents(spec: GridSpec, parts: Mapping[str, ClusterParts]) -> dict[str, Mapping[str, Any]]:
    """The cluster of each file system that is one, by the file system's name."""
    return {
        name: kind.cluster_document(spec.name, name, each, parts[name].machines, parts[name].disks)
        for name, each in spec.filesystems.items()
        if name in parts and isinstance(kind := kind_of(each), SharedDiskCluster)
    }


def playbook_clusters(spec: GridSpec, parts: Mapping[str, ClusterParts]) -> list[dict[str, object]]:
    """What the role that makes clusters is told: those that have servers, the first of which makes it."""
    return [
        {"name": name, "first": parts[name].machines[0].name, "document": document}
        for name, document in cluster_documents(spec, parts).items()
        if any(each.is_server for each in parts[name].machines)
    ]
