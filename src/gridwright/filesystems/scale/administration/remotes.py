"""File systems of other clusters that this one mounts: made known, and mounted where they let it in.

What is known is read from what the commands print for people: nobody has shown their columns of -Y. Nodes run
this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.scale.administration.desired import DesiredRemote, ScaleCluster
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.order import STANZAS, ScaleCommand, mm


@dataclass(frozen=True)
class KnownRemotes:
    """What this cluster knows of others."""

    clusters: frozenset[str] = frozenset()
    filesystems: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """By their name here: the name there, the cluster, the mount point."""


def known_remotes(clusters: str, filesystems: str) -> KnownRemotes:
    """Out of `mmremotecluster show all` and `mmremotefs show all`."""
    rows = [line.split() for line in filesystems.splitlines()]
    return KnownRemotes(
        frozenset(re.findall(r"^Cluster name:[ \t]*(\S+)[ \t]*$", clusters, re.MULTILINE)),
        # Local name, remote name, cluster, mount point, and what is not looked at.
        {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) > 3 and row[3].startswith("/")},
    )


def definitions(desired: ScaleCluster, known: KnownRemotes) -> Iterator[ScaleCommand]:
    """What makes them known. Raises ScaleError for a name that is another file system's."""
    for remote in desired.remotes:
        if not remote.key:
            continue
        if remote.cluster not in known.clusters:
            yield mm(
                *("mmremotecluster", "add", remote.cluster, "-n", ",".join(remote.contacts), "-k", STANZAS),
                why=f"know cluster {remote.cluster} by its public key",
                stanzas=remote.key if remote.key.endswith("\n") else f"{remote.key}\n",
            )
        there = known.filesystems.get(remote.device)
        if there is None:
            yield mm(
                *("mmremotefs", "add", remote.device, "-f", remote.filesystem, "-C", remote.cluster),
                *("-T", remote.mount_point, "-A", "yes"),
                why=f"know its file system {remote.filesystem} as {remote.device}",
            )
        elif there[:2] != (remote.filesystem, remote.cluster):
            raise ScaleError(
                f"{remote.device} is file system {there[0]} of cluster {there[1]} here, and not "
                f"{remote.filesystem} of {remote.cluster}: remove it with mmremotefs delete, or "
                "name it otherwise"
            )


def mount_command(
    remote: DesiredRemote, observed: ObservedCluster, mounted: frozenset[str]
) -> ScaleCommand | None:
    """What mounts it on all nodes that work and have not; None where there is none."""
    lacking = sorted(observed.active - mounted)
    if not lacking:
        return None
    return mm(
        *("mmmount", remote.device, "-N", ",".join(lacking)),
        why=f"mount {remote.device} on {len(lacking)} nodes",
        limit_s=900.0,
    )


def not_let_in(desired: ScaleCluster, remote: DesiredRemote, said: str) -> str:
    """What its administrators have to do."""
    return (
        f"file system {remote.filesystem} of cluster {remote.cluster} is not mounted ({said}): where this "
        "cluster was not let in yet, give /var/mmfs/ssh/id_rsa.pub of a node to its administrators, for "
        f"mmauth add {desired.name} -k FILE and mmauth grant {desired.name} -f {remote.filesystem} there "
        "(cluster names as mmlscluster shows them)"
    )
