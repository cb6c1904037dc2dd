"""The files that mmcrcluster and mmcrnsd read (IBM Storage Scale, commands of these names)."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.filesystems.scale.administration.desired import (
    SYSTEM_POOL,
    DesiredNode,
    DesiredNsd,
    ScaleCluster,
)


def node_lines(nodes: Iterable[DesiredNode]) -> str:
    """Node descriptors, `NodeName:NodeDesignations`, one on a line."""
    return "".join(f"{node.name}:{designations(node)}\n" for node in nodes)


def designations(node: DesiredNode) -> str:
    """Whether it has a vote, and is a manager: `quorum-manager`."""
    quorum = "quorum" if node.is_quorum else "nonquorum"
    return f"{quorum}-{'manager' if node.is_manager else 'client'}"


def nsd_stanzas(nsds: Iterable[DesiredNsd]) -> str:
    """NSD stanzas: device, name, servers with the first one first, usage, failure group and pool."""
    return "\n".join(_nsd(nsd) for nsd in nsds)


def pool_stanzas(nsds: Iterable[DesiredNsd]) -> str:
    """Pool stanzas of the pools of these disks, empty where all are of one pool.

    How blocks are laid out is said once for each pool and stays (mmcrfs command): scattered, as a grid grows.
    Scale itself clusters them where eight nodes or disks or fewer are there at first.
    """
    usages = {nsd.pool: nsd.usage for nsd in nsds if nsd.usage != "descOnly"}
    if set(usages) <= {SYSTEM_POOL}:
        return ""
    return "".join(
        f"%pool: pool={pool}\n  usage={usage}\n  layoutMap=scatter\n\n" for pool, usage in usages.items()
    )


def _nsd(nsd: DesiredNsd) -> str:
    lines = [
        f"%nsd: device={nsd.device}",
        f"  nsd={nsd.name}",
        f"  servers={','.join(nsd.servers)}",
        f"  usage={nsd.usage}",
        f"  failureGroup={nsd.failure_group}",
    ]
    # A disk without data is in no pool but the first.
    lines += [f"  pool={nsd.pool}"] if nsd.usage != "descOnly" else []
    return "\n".join(lines) + "\n"


def disks_of(cluster: ScaleCluster, filesystem: str) -> tuple[DesiredNsd, ...]:
    """The NSDs of a file system, in the order that it has them."""
    by_name = {nsd.name: nsd for nsd in cluster.nsds}
    (desired,) = (each for each in cluster.filesystems if each.name == filesystem)
    return tuple(by_name[name] for name in desired.nsds)
