"""File systems of other clusters that this one mounts: made known, and mounted where they let it in.

What is known is read from what the commands print for people: nobody has shown their columns of -Y. Nodes run
this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.order import STANZAS, ScaleCommand, mm
from gridwright.filesystems.scale.administration.wanted import ScaleCluster, WantedRemote


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


def definitions(wanted: ScaleCluster, known: KnownRemotes) -> Iterator[ScaleCommand]:
    """What makes them known. Raises ScaleError for a name that is another file system's."""
    for each in wanted.remotes:
        if not each.key:
            continue
        if each.cluster not in known.clusters:
            yield mm(
                *("mmremotecluster", "add", each.cluster, "-n", ",".join(each.contacts), "-k", STANZAS),
                why=f"know cluster {each.cluster} by its public key",
                stanzas=each.key if each.key.endswith("\n") else f"{each.key}\n",
            )
        there = known.filesystems.get(each.device)
        if there is None:
            yield mm(
                *("mmremotefs", "add", each.device, "-f", each.filesystem, "-C", each.cluster),
                *("-T", each.mount_point, "-A", "yes"),
                why=f"know its file system {each.filesystem} as {each.device}",
            )
        elif there[:2] != (each.filesystem, each.cluster):
            raise ScaleError(
                f"{each.device} is file system {there[0]} of cluster {there[1]} here, and not "
                f"{each.filesystem} of {each.cluster}: remove it with mmremotefs delete, or name it otherwise"
            )


def mount_command(
    remote: WantedRemote, observed: ObservedCluster, mounted: frozenset[str]
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


def not_let_in(wanted: ScaleCluster, remote: WantedRemote, said: str) -> str:
    """What its administrators have to do."""
    return (
        f"file system {remote.filesystem} of cluster {remote.cluster} is not mounted ({said}): where this "
        "cluster was not let in yet, give /var/mmfs/ssh/id_rsa.pub of a node to its administrators, for "
        f"mmauth add {wanted.name} -k FILE and mmauth grant {wanted.name} -f {remote.filesystem} there "
        "(cluster names as mmlscluster shows them)"
    )
