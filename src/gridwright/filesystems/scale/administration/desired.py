"""A Spectrum Scale cluster as the grid wants it: plain values, which nodes get as JSON.

Nodes run this with Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Usage = Literal["dataAndMetadata", "dataOnly", "metadataOnly", "descOnly"]
"""What a disk holds (IBM Storage Scale, mmcrnsd command); localCache is not made by Gridwright."""
SYSTEM_POOL = "system"
"""The pool that every file system has, and metadata are in (IBM Storage Scale, storage pools)."""
NFS_ACLS = "nfs4"
"""The ACLs that CES is supported with (IBM Storage Scale, authorizing file protocol users)."""
CALLBACK = "gridwrightFullPool"
"""What runs rules of migration is called; names must not begin with gpfs or mm (mmaddcallback command)."""


@dataclass(frozen=True)
class DesiredNode:
    """A node of the cluster."""

    name: str
    """Its host name, which all nodes resolve."""
    address: str
    """What the other daemons reach it at."""
    is_server: bool
    is_quorum: bool = False
    is_manager: bool = False
    fault_domain: int = 0
    memory_bytes: int | None = None
    nic_bytes_per_s: float | None = None
    is_protocol: bool = False
    """Whether it exports files by NFS."""

    @property
    def licence(self) -> str:
        """A server's for NSD servers, quorum nodes, managers and who exports (mmchlicense command)."""
        serves = self.is_server or self.is_quorum or self.is_manager or self.is_protocol
        return "server" if serves else "client"


@dataclass(frozen=True)
class DesiredNsd:
    """A disk of the cluster, with the servers that reach it, the first one first."""

    name: str
    device: str
    """As its first server sees it, such as /dev/oracleoci/oraclevdb."""
    servers: tuple[str, ...]
    usage: Usage
    failure_group: int
    pool: str
    filesystem: str
    volume: str
    """The cloud's volume or the site's disk that it is, from which its name is made."""


@dataclass(frozen=True)
class DesiredSetting:
    """An attribute of the cluster's configuration."""

    parameter: str
    value: str
    node_class: str | None = None
    """The nodes that have it; None for all."""
    needs_down: bool = False
    """Whether it changes only while the daemon is down on every node."""
    source: str = ""


@dataclass(frozen=True)
class DesiredFileSystem:
    """A file system of the cluster."""

    name: str
    """Of the device, such as fs1."""
    mount_point: str
    block_size: int
    data_replicas: int
    metadata_replicas: int
    nsds: tuple[str, ...]
    metadata_block_size: int = 0
    """Of pool system where it has metadata alone; 0 where it is that of data."""
    rules: tuple[str, ...] = ()
    """Of its policy; none where all disks are of one pool."""
    acls: str = ""
    """Which ACLs it is made with; empty: Scale's own default."""

    @property
    def migrates(self) -> bool:
        """Whether files leave a pool when it fills."""
        return any("THRESHOLD(" in rule for rule in self.rules)


@dataclass(frozen=True)
class DesiredRemote:
    """A file system of another cluster that this one mounts."""

    cluster: str
    contacts: tuple[str, ...]
    filesystem: str
    mount_point: str
    device: str = ""
    """What it is called here."""
    key: str = ""
    """The public key of that cluster; without it all is done by hand."""


@dataclass(frozen=True)
class DesiredBucket:
    """A directory of a file system that is a cache of a bucket."""

    filesystem: str
    fileset: str
    """Its name, and that of the directory right below the mount point."""
    bucket: str
    prefix: str
    endpoint: str
    region: str
    mode: str
    keys: str
    """The file on the first server that has the keys."""


@dataclass(frozen=True)
class DesiredExport:
    """A directory that clients mount by NFS."""

    path: str
    clients: tuple[str, ...]
    access: Literal["ro", "rw"]
    squash: Literal["root", "none"]


@dataclass(frozen=True)
class DesiredNfs:
    """NFS by Cluster Export Services."""

    root: str
    """The directory that protocol servers share (cesSharedRoot)."""
    servers: tuple[str, ...]
    addresses: tuple[str, ...]
    exports: tuple[DesiredExport, ...] = ()

    @classmethod
    def from_document(cls, given: Mapping[str, Any]) -> DesiredNfs:
        """Out of JSON. Raises KeyError or TypeError."""
        exports = tuple(
            DesiredExport(**{**each, "clients": tuple(each["clients"])}) for each in given["exports"]
        )
        return cls(given["root"], tuple(given["servers"]), tuple(given["addresses"]), exports)


@dataclass(frozen=True)
class ScaleCluster:
    """A cluster."""

    name: str
    nodes: tuple[DesiredNode, ...]
    tiebreakers: tuple[str, ...] = ()
    """NSDs that decide when quorum nodes do not see each other; at most three."""
    nsds: tuple[DesiredNsd, ...] = ()
    node_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: tuple[DesiredSetting, ...] = ()
    filesystems: tuple[DesiredFileSystem, ...] = ()
    remotes: tuple[DesiredRemote, ...] = ()
    callhome: Mapping[str, str] = field(default_factory=dict)
    buckets: tuple[DesiredBucket, ...] = ()
    nfs: DesiredNfs | None = None
    """None where CES is off."""

    @property
    def quorum(self) -> tuple[str, ...]:
        """Names of the quorum nodes."""
        return tuple(node.name for node in self.nodes if node.is_quorum)

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the NSD servers."""
        return tuple(node.name for node in self.nodes if node.is_server)

    def document(self) -> dict[str, Any]:
        """In plain values, which JSON takes."""
        return {
            **asdict(self),
            "node_classes": {name: list(each) for name, each in self.node_classes.items()},
        }

    @classmethod
    def from_document(cls, given: Mapping[str, Any]) -> ScaleCluster:
        """The cluster of a document of this class. Raises KeyError or TypeError for any other one."""
        return cls(
            name=given["name"],
            nodes=tuple(DesiredNode(**each) for each in given["nodes"]),
            tiebreakers=tuple(given["tiebreakers"]),
            nsds=tuple(DesiredNsd(**{**each, "servers": tuple(each["servers"])}) for each in given["nsds"]),
            node_classes={name: tuple(each) for name, each in given["node_classes"].items()},
            settings=tuple(DesiredSetting(**each) for each in given["settings"]),
            filesystems=tuple(
                DesiredFileSystem(**{**each, "nsds": tuple(each["nsds"]), "rules": tuple(each["rules"])})
                for each in given["filesystems"]
            ),
            remotes=tuple(
                DesiredRemote(**{**each, "contacts": tuple(each["contacts"])}) for each in given["remotes"]
            ),
            callhome=dict(given["callhome"]),
            buckets=tuple(DesiredBucket(**each) for each in given["buckets"]),
            nfs=DesiredNfs.from_document(given["nfs"]) if given.get("nfs") else None,
        )
