"""Which nodes of a cluster have a vote (facts oci-scale of 2026-11-22, rule 1). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.filesystems.shared_disks import ClusterMachine

MOST_QUORUM = 7
"""Quorum nodes at most: each one more is one more that every lease has to reach."""


def quorum_names(machines: Sequence[ClusterMachine], replicas: int = 1) -> tuple[str, ...]:
    """The quorum nodes (rule 1): an odd number of servers up to seven, or two with tiebreaker disks.

    One server of each pair comes first. With two copies a whole pair may die and the cluster goes on, so no
    pair has two votes: where pairs are even in number, a node without disks has the odd one.
    """
    servers = [machine for machine in machines if machine.is_server]
    if replicas > 1 and len({server.site for server in servers}) > 1:
        return _of_sites(servers)
    clients = [machine for machine in machines if not machine.is_server]
    first = _first_of_pairs(servers)
    others = [server for server in servers if server not in first]
    if not servers:
        ordered = clients
    elif replicas > 1 and 1 < len(first) < MOST_QUORUM:
        ordered = first if len(first) % 2 else [*first, *_apart(first, clients or others)[:1]]
    else:
        ordered = [*first, *others]
    # Two without tiebreaker disks stop when either of them dies, and one alone only when that one does.
    if len(ordered) == 2 and servers:
        return tuple(machine.name for machine in ordered)
    return tuple(each.name for each in ordered[: _odd(min(len(ordered), MOST_QUORUM))])


def _of_sites(servers: Sequence[ClusterMachine]) -> tuple[str, ...]:
    """As many of each site, so that most votes are left without any of them; the witness has the odd one."""
    by_site: dict[int, list[str]] = {}
    for machine in _first_of_pairs([one for one in servers if not one.is_witness]):
        by_site.setdefault(machine.site, []).append(machine.name)
    witness = [server.name for server in servers if server.is_witness]
    room = (MOST_QUORUM - len(witness)) // len(by_site)
    each_has = min(room, *map(len, by_site.values()))
    if not witness and each_has % 2 == 0:
        each_has -= 1
    voters = [name for names in by_site.values() for name in names[: max(each_has, 1)]] + witness
    return tuple(voters[: _odd(min(len(voters), MOST_QUORUM))])


def _first_of_pairs(servers: Sequence[ClusterMachine]) -> list[ClusterMachine]:
    seen: dict[int, ClusterMachine] = {}
    for server in servers:
        seen.setdefault(server.pair, server)
    return list(seen.values())


def _apart(voters: Sequence[ClusterMachine], others: Sequence[ClusterMachine]) -> list[ClusterMachine]:
    """Others in the order in which one more should have a vote: of a fault domain without one first."""
    taken = {voter.fault_domain for voter in voters}
    return sorted(others, key=lambda each: each.fault_domain in taken)


def _odd(count: int) -> int:
    return count if count % 2 else max(count - 1, 0)
