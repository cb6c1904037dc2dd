"""The commands that make a cluster out of nothing, in the order that Scale takes them. Pure.

Each names a file of stanzas by what it has; who carries it out writes the file first. Nodes run this with
Python 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gridwright.filesystems.scale.administration.desired import (
    CALLBACK,
    DesiredFileSystem,
    DesiredNode,
    DesiredNsd,
    DesiredSetting,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.policy import policy_text
from gridwright.filesystems.scale.administration.stanzas import (
    disks_of,
    node_lines,
    nsd_stanzas,
    pool_stanzas,
)

BIN = "/usr/lpp/mmfs/bin"
STANZAS = "{stanzas}"
"""Stands in a command for the path of its file of stanzas."""


@dataclass(frozen=True)
class ScaleCommand:
    """One command of the administration."""

    argv: tuple[str, ...]
    why: str
    stanzas: str = ""
    """The content of the file that the command reads; empty where it reads none."""
    limit_s: float = 600.0
    """After so many seconds it hangs."""

    @property
    def name(self) -> str:
        """The command's own name."""
        return self.argv[0].rpartition("/")[2]


def commands(cluster: ScaleCluster) -> tuple[ScaleCommand, ...]:
    """All of it, from the first node to the mount on all nodes."""
    return (*_cluster(cluster), *_licences(cluster), *_nsds(cluster), *_configured(cluster), *_files(cluster))


def mm(name: str, *words: str, why: str, stanzas: str = "", limit_s: float = 600.0) -> ScaleCommand:
    """A command by its name and words."""
    return ScaleCommand(argv=(f"{BIN}/{name}", *words), why=why, stanzas=stanzas, limit_s=limit_s)


def _cluster(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    yield mm(
        "mmcrcluster",
        *("-N", STANZAS, "-r", "/usr/bin/ssh", "-R", "/usr/bin/scp", "-C", cluster.name, "-A"),
        why=f"make the cluster of {len(cluster.nodes)} nodes, {len(cluster.quorum)} of them with a vote",
        stanzas=node_lines(cluster.nodes),
    )
    for name, members in cluster.node_classes.items():
        yield mm("mmcrnodeclass", name, "-N", ",".join(members), why=f"name the class {name}")


def _licences(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    """Before NSDs and the daemon, which want them."""
    for kind in ("server", "client"):
        names = [node.name for node in cluster.nodes if node.licence == kind]
        if names:
            yield mm(
                "mmchlicense",
                *(kind, "--accept", "-N", ",".join(names)),
                why=f"give {len(names)} nodes the licence of a {kind}",
            )


def _nsds(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    if cluster.nsds:
        yield nsds_command(cluster.nsds)


def nsds_command(nsds: Sequence[DesiredNsd]) -> ScaleCommand:
    """Make NSDs. A disk that has an NSD's ID is refused (-v yes, the default), and never written over."""
    return mm(
        *("mmcrnsd", "-F", STANZAS, "-v", "yes"),
        why=f"write the IDs of {len(nsds)} disks",
        stanzas=nsd_stanzas(nsds),
        limit_s=1800.0,
    )


def add_nodes(nodes: Sequence[DesiredNode]) -> ScaleCommand:
    """Take nodes into a cluster that is there."""
    return mm(
        *("mmaddnode", "-N", STANZAS),
        why=f"add {len(nodes)} nodes to the cluster",
        stanzas=node_lines(nodes),
    )


def _configured(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    for node_class, settings in groupby(cluster.settings, key=lambda each: each.node_class):
        yield change_settings(tuple(settings), node_class)
    if cluster.tiebreakers:
        yield mm(
            "mmchconfig",
            f"tiebreakerDisks={';'.join(cluster.tiebreakers)}",
            why="two nodes have a vote: with disks that both see, one of them may die",
        )
    if cluster.servers:
        yield mm("mmstartup", "-N", ",".join(cluster.servers), why="start the servers")
    clients = [node.name for node in cluster.nodes if not node.is_server]
    if clients:
        yield mm("mmstartup", "-N", ",".join(clients), why="start the clients")


def change_settings(settings: tuple[DesiredSetting, ...], node_class: str | None) -> ScaleCommand:
    """Set attributes of one class, or of all nodes."""
    assigned = ",".join(f"{setting.parameter}={setting.value}" for setting in settings)
    where = ("-N", node_class) if node_class else ()
    return mm("mmchconfig", assigned, *where, why=f"configure {node_class or 'all nodes'}")


def _files(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    for filesystem in cluster.filesystems:
        yield make_filesystem(cluster, filesystem)
        # Before the first file is made.
        if filesystem.rules:
            yield install_policy(filesystem)
    if any(each.migrates for each in cluster.filesystems):
        yield full_pool_callback()
    if cluster.filesystems:
        yield mm("mmmount", "all", "-a", why="mount everywhere", limit_s=900.0)
    if cluster.callhome:
        yield mm(
            "mmcallhome",
            *("info", "change", "--customer-name", cluster.callhome["company"]),
            *("--customer-id", cluster.callhome["id"], "--country-code", cluster.callhome["country"]),
            *("--email", cluster.callhome["email"]),
            why="tell IBM's support who calls",
        )


def make_filesystem(cluster: ScaleCluster, desired: DesiredFileSystem) -> ScaleCommand:
    """Make one file system on its NSDs; the most copies are two, so that copies can be added later."""
    disks = disks_of(cluster, desired.name)
    metadata = desired.metadata_block_size
    return mm(
        "mmcrfs",
        *(desired.name, "-F", STANZAS, "-B", str(desired.block_size)),
        *("-m", str(desired.metadata_replicas), "-M", "2", "-r", str(desired.data_replicas), "-R", "2"),
        *(("--metadata-block-size", str(metadata)) if metadata else ()),
        *(("-k", desired.acls) if desired.acls else ()),
        *("-T", desired.mount_point, "-A", "yes", "-v", "yes"),
        why=f"make {desired.name} on {len(desired.nsds)} disks",
        stanzas=pool_stanzas(disks) + nsd_stanzas(disks),
        limit_s=3600.0,
    )


def add_disks(filesystem: str, new: Sequence[DesiredNsd], pools: Collection[str]) -> ScaleCommand:
    """Add NSDs to a file system; those of a pool that is none of `pools` make it."""
    made = pool_stanzas(nsd for nsd in new if nsd.pool not in pools)
    return mm(
        *("mmadddisk", filesystem, "-F", STANZAS, "-v", "yes"),
        why=f"add {len(new)} disks to {filesystem}",
        stanzas=made + nsd_stanzas(new),
        limit_s=3600.0,
    )


def install_policy(desired: DesiredFileSystem) -> ScaleCommand:
    """Say where files go in its pools; mmchpolicy reads the rules before it takes them."""
    return mm(
        *("mmchpolicy", desired.name, STANZAS, "-I", "yes"),
        why=f"say where files of {desired.name} go",
        stanzas=policy_text(desired.rules),
    )


def full_pool_callback() -> ScaleCommand:
    """Have a full pool run the rules of migration, one run at a time (mmstartpolicy command)."""
    return mm(
        *("mmaddcallback", CALLBACK, "--command", f"{BIN}/mmstartpolicy"),
        *("--event", "lowDiskSpace,noDiskSpace", "--parms", "%eventName %fsName --single-instance"),
        why="have files leave pools that fill",
    )
