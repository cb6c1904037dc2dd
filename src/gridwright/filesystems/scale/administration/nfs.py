"""NFS by Cluster Export Services (CES): protocol servers, addresses that move among them, and exports.

The shared root first, then servers, the service, addresses, accounts, and exports one by one (IBM Storage
Scale, commands mmchconfig, mmchnode, mmces, mmuserauth and mmnfs). Rows of `mmlscluster --ces`, of `mmnfs
export list`, of `mmces state show -Y` and of `mmlsfs -Y` are those that tools of others read; of `mmces
address list` the places of address and server are known, and no names of columns (looked up 2026-11-28).
Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.scale.administration.desired import NFS_ACLS, DesiredExport, DesiredNfs
from gridwright.filesystems.scale.administration.observed import Ask, NodeNames, ScaleError, records, short
from gridwright.filesystems.scale.administration.order import ScaleCommand, mm

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


Clients = Mapping[str, "tuple[str, str]"]
"""Access (ro, rw) and squash (root, none, or Scale's own word) by client."""
_ACCESS = {"ro": "RO", "rw": "RW"}
_SQUASH = {"root": "root_squash", "none": "no_root_squash"}
_UNSET = ("", "undefined")
"""What mmlsconfig has for an attribute without a value."""


@dataclass(frozen=True)
class ObservedNfs:
    """What there is of CES."""

    root: str = ""
    servers: frozenset[str] = frozenset()
    is_enabled: bool = False
    addresses: frozenset[str] = frozenset()
    has_accounts: bool = False
    """Whether the source of accounts for files is set."""
    exports: Mapping[str, Clients] = field(default_factory=dict)
    """Exports with their clients; those that nobody wants have none here."""


def observe_nfs(ask: Ask, root: str, nodes: Collection[str], paths: Collection[str]) -> ObservedNfs:
    """Ask the commands; `root` is the value of cesSharedRoot, `paths` are exports to look into.

    Raises ScaleError, and KeyError for a column that is not there.
    """
    if root.lower() in _UNSET:
        return ObservedNfs()
    named = NodeNames(nodes)
    rows = records(ask("mmlscluster", "--ces", "-Y") or "")
    servers = frozenset(named(each["daemonNodeName"]) for each in rows.get("cesNode", []))
    if not servers:
        return ObservedNfs(root=root)
    services = re.split(r"[\s,]+", " ".join(each["EnabledServices"] for each in rows.get("cesSummary", [])))
    if "NFS" not in services:
        return ObservedNfs(root, servers, addresses=_addresses(ask))
    accounts = re.search(r"FILE access configuration\s*:", ask("mmuserauth", "service", "list") or "")
    there = exports_of(ask("mmnfs", "export", "list", "-Y") or "")
    return ObservedNfs(
        root=root,
        servers=servers,
        is_enabled=True,
        addresses=_addresses(ask),
        has_accounts=accounts is not None,
        exports={
            path: exports_of(ask("mmnfs", "export", "list", "--nfsdefs", path, "-Y") or "").get(path, {})
            if path in paths
            else {}
            for path in there
        },
    )


def _addresses(ask: Ask) -> frozenset[str]:
    """All of them, with or without a server behind them."""
    return frozenset(servers_of(ask("mmces", "address", "list", "-Y") or ""))


def exports_of(printed: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Out of `mmnfs export list -Y`: exports with their clients.

    A client may be an IPv6 address, whose colons are written as they are: what a row has more than its header
    belongs to the client. Without columns of access and squash both are empty.
    """
    columns: list[str] = []
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in printed.splitlines():
        fields = line.strip().split(":")
        if len(fields) > 3 and fields[2] == "HEADER":
            columns = fields
        elif len(fields) >= len(columns) > 3 and fields[:2] == columns[:2] and "Clients" in columns:
            at = columns.index("Clients")
            end = at + 1 + len(fields) - len(columns)
            row = dict(zip(columns, [*fields[:at], ":".join(fields[at:end]), *fields[end:]]))  # noqa: B905 - 3.9
            clients = found.setdefault(row.get("Path", ""), {})
            access, squash = row.get("Access_Type", ""), row.get("Squash", "").lower()
            named = {word: name for name, word in _SQUASH.items()}
            clients[row["Clients"]] = (access.lower(), named.get(squash, squash))
    return {path: clients for path, clients in found.items() if path}


def nfs_commands(
    desired: DesiredNfs, there: ObservedNfs, active: Collection[str], is_directory: Callable[[str], bool]
) -> Iterator[ScaleCommand]:
    """What differs. `active` are nodes whose daemon works; exports wait until NFS is enabled."""
    servers = [server for server in desired.servers if server in active]
    if not there.root:
        # Later it changes only while Scale is down on all protocol servers (mmchconfig command).
        yield mm("mmchconfig", f"cesSharedRoot={desired.root}", why="what protocol servers share")
    if new := [server for server in servers if server not in there.servers]:
        yield mm("mmchnode", "--ces-enable", "-N", ",".join(new), why=f"{len(new)} servers export files")
    if not there.servers and not servers:
        return
    if not there.is_enabled:
        yield mm("mmces", "service", "enable", "NFS", why="serve NFS")
    if missing := [address for address in desired.addresses if address not in there.addresses]:
        yield mm("mmces", "address", "add", "--ces-ip", ",".join(missing), why="addresses of NFS")
    if not there.is_enabled:
        return
    if not there.has_accounts:
        words = ("service", "create", "--data-access-method", "file", "--type", "userdefined")
        yield mm("mmuserauth", *words, why="accounts are those of the servers' own system")
    for export in desired.exports:
        if export.path in there.exports:
            yield from _changed(export, there.exports[export.path])
        elif is_directory(export.path):
            clients = ";".join(_client(export, client) for client in export.clients)
            yield mm("mmnfs", "export", "add", export.path, "--client", clients, why=f"export {export.path}")


def _changed(desired: DesiredExport, there: Clients) -> Iterator[ScaleCommand]:
    lacking = [client for client in desired.clients if client not in there]
    other = [
        client
        for client in desired.clients
        if client in there and there[client] != (desired.access, desired.squash)
    ]
    for option, clients in (("--nfsadd", lacking), ("--nfschange", other)):
        if clients:
            said = ";".join(_client(desired, client) for client in clients)
            yield mm(
                "mmnfs", "export", "change", desired.path, option, said, why=f"clients of {desired.path}"
            )


def _client(export: DesiredExport, client: str) -> str:
    """As `--client` takes one: `10.2.0.0/16(Access_Type=RO,Squash=root_squash)`."""
    return f"{client}(Access_Type={_ACCESS[export.access]},Squash={_SQUASH[export.squash]})"


def nfs_notes(desired: DesiredNfs, there: ObservedNfs, is_directory: Callable[[str], bool]) -> Iterator[str]:
    """What is there and not wanted is told, and left; and what waits."""
    if there.root and there.root != desired.root:
        yield (
            f"cesSharedRoot is {there.root}, and not {desired.root}: it changes by hand, while Scale is "
            "down on all protocol servers"
        )
    for name in sorted(there.servers - set(desired.servers)):
        yield f"{name} serves NFS and is not in nfs.servers: mmchnode --ces-disable -N {name} ends that"
    for address in sorted(there.addresses - set(desired.addresses)):
        yield f"{address} is not in nfs.addresses: mmces address remove --ces-ip {address} takes it away"
    known = {export.path: export for export in desired.exports}
    for path in sorted(there.exports.keys() - known.keys()):
        yield f"export {path} is not in the grid spec: mmnfs export remove {path} ends it"
    for path, each in known.items():
        for client in sorted(there.exports.get(path, {}).keys() - set(each.clients)):
            yield (
                f"{client} may mount {path}, and is not in the grid spec: "
                f"mmnfs export change {path} --nfsremove {client} ends that"
            )
        if path not in there.exports and not is_directory(path):
            yield f"{path} is not exported yet: make the directory, with its owner and rights"
