"""How NFS by Cluster Export Services (CES) is on its servers, and whether its file system suits it.

Columns of `mmces state show -Y` and of `mmlsfs -Y` are those of real output as tools of others read it; of
`mmces address list -Y` the places of address and server are known, and no names of columns (looked up
2026-11-28). Nodes run this with Python 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gridwright.filesystems.scale.administration.desired import NFS_ACLS
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.naming import short
from gridwright.filesystems.scale.administration.observed import Ask
from gridwright.filesystems.scale.administration.y_format import records

_WATCHED = ("CES", "NETWORK", "NFS")
"""Components of a protocol server without which it serves no NFS."""
_ILL = ("DEGRADED", "DEPEND", "FAILED", "STOPPED", "SUSPENDED")
"""Their states that somebody has to look at; one that starts, or is not known yet, is left to do so."""
_ADDRESS, _SERVER = 6, 7
"""Their places in a row."""
_ACLS = {"posix": "POSIX ACLs alone", "all": "POSIX ACLs beside those of NFSv4"}


def states_of(printed: str) -> dict[str, dict[str, str]]:
    """States of the components of each server that are watched, out of `mmces state show -Y`."""
    return {
        short(row["NODE"]): {name: row[name] for name in _WATCHED if name in row}
        for rows in records(printed).values()
        for row in rows
        if row.get("NODE")
    }


def servers_of(printed: str) -> dict[str, str]:
    """The server of each address, empty where none has it, out of `mmces address list -Y`."""
    found = {}
    for line in printed.splitlines():
        fields = line.split(":")
        if len(fields) > _SERVER and fields[0].startswith("mm") and fields[2] != "HEADER":
            at = fields[_SERVER]
            found[fields[_ADDRESS]] = "" if at.lower() in ("", "none", "unassigned") else short(at)
    return found


def acls_of(printed: str) -> str:
    """Which ACLs a file system has, out of `mmlsfs DEVICE -k -Y`: posix, nfs4 or all; empty for unknown."""
    rows = [row for record in records(printed).values() for row in record]
    return next((row.get("data", "") for row in rows if row.get("fieldName") == "ACLSemantics"), "").lower()


def state_notes(ask: Ask, device: str, *, is_settled: bool) -> Iterator[str]:
    """What is not well, in words. `is_settled`: whether nothing of it was changed just now.

    A server that does not answer makes a command fail, which is told like the rest, and holds nothing up.
    """
    try:
        acls = acls_of(ask("mmlsfs", device, "-k", "-Y") or "")
        if acls not in ("", NFS_ACLS):
            yield (
                f"{device} takes {_ACLS.get(acls, acls)}, and CES is supported with those of NFSv4 alone: "
                f"mmchfs {device} -k {NFS_ACLS}, by hand, as nobody sets POSIX ACLs there from then on"
            )
        # Services start, and addresses find their server, a while after they were made known.
        if is_settled:
            yield from _ill(states_of(ask("mmces", "state", "show", "-a", "-Y") or ""))
            yield from _nowhere(servers_of(ask("mmces", "address", "list", "-Y") or ""))
    except ScaleError as silent:
        yield f"CES does not tell how it is on all its servers ({silent}): mmces state show -a"


def _ill(states: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for server, components in sorted(states.items()):
        ill = [f"{name} is {state}" for name, state in components.items() if state.upper() in _ILL]
        if ill:
            words = ", ".join(ill)
            yield f"{server} serves no NFS, or not as it should ({words}): mmhealth node show -N {server}"


def _nowhere(servers: Mapping[str, str]) -> Iterator[str]:
    lost = sorted(address for address, server in servers.items() if not server)
    if lost:
        yield (
            f"no server has {', '.join(lost)}, so that clients of NFS there hang: each protocol server needs "
            "a card in that network with an address of its own, and NFS that runs; then mmces address move "
            "--rebalance"
        )
