"""NFS by Scale's own Cluster Export Services (CES): what makes it, and what is there already.

The order is that of IBM Storage Scale, "Configuring the CES and protocol configuration": the shared root,
the nodes, their addresses, the service, how users are known, the exports. Nothing is taken away: what others
made stays. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from gridwright.filesystems.scale.administration.naming import NodeNames
from gridwright.filesystems.scale.administration.order import ScaleCommand, mm
from gridwright.filesystems.scale.administration.wanted import WantedExport, WantedNfs

ROOT = "cesSharedRoot"
_SQUASHED = {"root": "root_squash", "none": "no_root_squash"}
_ENABLED = re.compile(r"^\s*Enabled services:(.*)$", re.IGNORECASE | re.MULTILINE)
"""The first line of `mmces service list`."""
_NOT_CONFIGURED = re.compile(r"FILE access (is )?not configured", re.IGNORECASE)
"""`mmuserauth service list` where nobody has said how users are known."""


@dataclass(frozen=True)
class ObservedNfs:
    """What the cluster has of it."""

    root: str = ""
    """The shared root; empty where none is set, and then there is nothing else."""
    nodes: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    knows_users: bool = False
    """Whether somebody has said how users are known."""
    exports: frozenset[str] = frozenset()


def observe_nfs(ask: Callable[..., str], root: str, nodes: Collection[str]) -> ObservedNfs:
    """What is there. `ask` runs a command; `root` is what mmlsconfig says; `nodes` are the grid's names.

    What the commands print for people is read: nobody has published all columns of their -Y. Raises
    ScaleError.
    """
    if not root:
        return ObservedNfs()
    named = NodeNames(nodes)
    # Names, addresses and paths have no blanks: whichever column a release has them in, they are words.
    members = frozenset(map(named, ask("mmces", "node", "list").split())) & frozenset(nodes)
    if not members:
        return ObservedNfs(root)
    enabled = _ENABLED.search(ask("mmces", "service", "list"))
    services = frozenset(re.findall(r"\w+", enabled.group(1).upper())) if enabled else frozenset()
    users = ask("mmuserauth", "service", "list")
    return ObservedNfs(
        root,
        members,
        frozenset(ask("mmces", "address", "list").split()),
        services,
        bool(users.strip()) and not _NOT_CONFIGURED.search(users),
        frozenset(ask("mmnfs", "export", "list").split()) if "NFS" in services else frozenset(),
    )


def nfs_commands(
    wanted: WantedNfs, there: ObservedNfs, absent: Collection[str] = ()
) -> Iterator[ScaleCommand]:
    """What lacks, in CES's order; exports of directories that are `absent` wait for these."""
    if not there.root:
        # The daemon must be down on CES nodes while it changes, and there are none before it is set.
        yield mm("mmchconfig", f"{ROOT}={wanted.root}", why="where CES keeps what its nodes share")
    nodes = [each for each in wanted.servers if each not in there.nodes]
    if nodes:
        yield mm("mmchnode", "--ces-enable", "-N", ",".join(nodes), why=f"{', '.join(nodes)} serve NFS")
    addresses = [each for each in wanted.addresses if each not in there.addresses]
    if addresses:
        yield mm(
            *("mmces", "address", "add", "--ces-ip", ",".join(addresses)),
            why=f"{len(addresses)} addresses that move among them",
        )
    if "NFS" not in there.services:
        yield mm("mmces", "service", "enable", "NFS", why="start the NFS servers")
    if not there.knows_users:
        yield mm(
            *("mmuserauth", "service", "create", "--data-access-method", "file", "--type", "userdefined"),
            why="users are those of the nodes themselves",
        )
    for each in wanted.exports:
        if each.path not in (*there.exports, *absent):
            yield mm(
                *("mmnfs", "export", "add", each.path, "--client", _client_words(each)),
                why=f"show {each.path} to {', '.join(each.clients)}",
            )


def nfs_notes(wanted: WantedNfs, absent: Collection[str]) -> Iterator[str]:
    """What is not done, and why."""
    for each in wanted.exports:
        if each.path in absent:
            yield f"{each.path} is not there, and not shown by NFS: make it, and run setup again"


def _client_words(export: WantedExport) -> str:
    """Clients with their rights, as `mmnfs export add --client` takes them."""
    rights = f"Access_Type={export.access.upper()},Squash={_SQUASHED[export.squash]}"
    return ";".join(f"{each}({rights})" for each in export.clients)
