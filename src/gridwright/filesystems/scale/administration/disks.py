"""Whether disks that are to become a file system's are there on all of their servers, and hold nothing.

mmcrnsd refuses what has the ID of an NSD, and writes over anything else. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from gridwright.filesystems.scale.administration.desired import DesiredNsd, ScaleCluster
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.naming import short
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.reach import reachable
from gridwright.filesystems.scale.administration.y_format import records

OnNode = Callable[[str, str], "tuple[int, str, str]"]
"""Runs a command on a node: its exit status, what it printed and what it said on stderr."""
_AT_A_TIME = 16


def new_disks(desired: ScaleCluster, observed: ObservedCluster) -> tuple[DesiredNsd, ...]:
    """Those that would be made NSDs now."""
    return tuple(nsd for nsd in reachable(desired, observed).nsds if nsd.name not in observed.nsds)


def refused_disks(nsds: Sequence[DesiredNsd], on_node: OnNode) -> Iterator[str]:
    """Disks that hold something, each with what it is.

    Raises ScaleError with the disks that are not there on a server of theirs: it may be that they come yet.
    """
    places = [(nsd, server) for nsd in nsds for server in nsd.servers]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        told = list(pool.map(lambda place: _look(place[0], place[1], on_node), places))
    away = [
        f"{nsd.device} on {server} ({error})"
        for (nsd, server), (status, _, error) in zip(places, told)  # noqa: B905 - Python 3.9
        if status
    ]
    if away:
        raise ScaleError(f"disks are not there on all of their servers: {', '.join(away)}")
    for (nsd, server), (_, printed, _) in zip(places, told):  # noqa: B905 - Python 3.9
        there = tuple(signatures(printed.splitlines()))
        if there and server == nsd.servers[0]:
            yield (
                f"{nsd.device} on {server} holds {' and '.join(there)}, which would be written over: name "
                f"another disk, or empty it with wipefs --all {nsd.device} if nobody needs that"
            )


def _look(nsd: DesiredNsd, server: str, on_node: OnNode) -> tuple[int, str, str]:
    status, printed, error = on_node(server, f"wipefs --parsable {shlex.quote(nsd.device)}")
    return status, printed, error.strip()[-200:]


def lost_paths(printed: str) -> Iterator[str]:
    """Servers that do not see a disk of theirs, out of `mmlsnsd -X -Y`; without those that do not answer."""
    lost: dict[str, list[str]] = {}
    for rows in records(printed).values():
        for row in rows:
            if row.get("diskName") and "not found" in row.get("remarks", "").lower():
                lost.setdefault(short(row.get("serverList", "")), []).append(row["diskName"])
    for server, names in sorted(lost.items()):
        yield (
            f"{server} does not see {', '.join(sorted(names)[:8])} ({len(names)} of its disks): the other "
            "server of the pair serves them alone; bring them back there, then mmnsddiscover -a -N all"
        )


def signatures(lines: Iterable[str]) -> Iterator[str]:
    """Types out of `wipefs --parsable`, rows of offset, UUID, label and type (util-linux, wipefs(8))."""
    seen = set()
    for line in lines:
        if line.startswith("#") or "," not in line:
            continue
        kind = line.rpartition(",")[2].strip() or "something"
        if kind not in seen:
            seen.add(kind)
            yield kind
