"""Cluster Export Services of the double: what IBM's manual says that their commands refuse."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.scale_double.files import FileSystem
from tests.support.scale_double.words import Refused, options_in

CES = ("mmces", "mmnfs", "mmuserauth")
SHELL = ("mkdir", "test", "mountpoint")
"""Programs of the system that look at the mounted file system."""
_CLIENT = re.compile(r"([^();]+)\(Access_Type=(RO|RW),Squash=(root_squash|no_root_squash)\)")


class CesCommands:
    """Commands of protocol servers; the state is the cluster's."""

    nodes: Mapping[str, Any]
    settings: dict[str, str]
    filesystems: dict[str, FileSystem]
    ces_nodes: list[str]
    ces_addresses: list[str]
    ces_services: list[str]
    file_accounts: str
    nfs_exports: dict[str, dict[str, list[str]]]
    directories: list[str]
    failed_services: list[str]

    def state_of(self, name: str) -> str:
        """As mmgetstate tells it."""
        raise NotImplementedError

    def _enable_ces(self, name: str) -> None:
        if "cesSharedRoot@" not in self.settings:
            raise Refused("mmchnode: The CES shared root directory is not defined.")
        if self.nodes[name].licence != "server":
            raise Refused(f"mmchnode: Node {name} has no server license.")
        if self.state_of(name) != "active":
            raise Refused(f"mmchnode: GPFS is not active on {name}.")
        if name in self.ces_nodes:
            raise Refused(f"mmchnode: Node {name} is a CES node already.")
        self.ces_nodes.append(name)

    def _set_shared_root(self, path: str) -> None:
        if path not in self.directories:
            raise Refused(f"mmchconfig: {path} is no directory of a file system that is mounted.")
        if any(self.nodes[name].daemon for name in self.ces_nodes):
            raise Refused("mmchconfig: GPFS must be down on all CES nodes.")

    def _mmces(self, words: list[str], _: str) -> None:
        if not self.ces_nodes:
            raise Refused("mmces: CES is not enabled on any node.")
        if words == ["service", "enable", "NFS"]:
            self.ces_services.append("NFS")
            return
        if words[:2] != ["address", "add"]:
            raise Refused(f"mmces: Incorrect option: {words}")
        for each in options_in(words[2:], {"--ces-ip"}, set())["--ces-ip"].split(","):
            if each in self.ces_addresses or not re.fullmatch(r"\d+(\.\d+){3}", each):
                raise Refused(f"mmces: Address {each} is in use, or is none.")
            self.ces_addresses.append(each)

    def _mmuserauth(self, words: list[str], _: str) -> None:
        if words != ["service", "create", "--data-access-method", "file", "--type", "userdefined"]:
            raise Refused(f"mmuserauth: Incorrect option: {words}")
        if self.file_accounts:
            raise Refused("mmuserauth: FILE access is configured already.")
        if not self.ces_services:
            raise Refused("mmuserauth: No protocol service is enabled.")
        self.file_accounts = "USERDEFINED"

    def _mmnfs(self, words: list[str], _: str) -> None:
        if "NFS" not in self.ces_services or not self.file_accounts:
            raise Refused("mmnfs: The NFS service is not enabled, or nobody said where accounts are from.")
        path, there = words[2], self.nfs_exports.get(words[2])
        if words[:2] == ["export", "add"]:
            if there is not None or path not in self.directories:
                raise Refused(f"mmnfs: {path} is exported already, or no directory of a file system.")
            self.nfs_exports[path] = _clients(options_in(words[3:], {"--client"}, set())["--client"])
            return
        if words[:2] != ["export", "change"] or there is None:
            raise Refused(f"mmnfs: Incorrect option, or no export: {words}")
        options = options_in(words[3:], {"--nfsadd", "--nfschange"}, set())
        new, changed = (_clients(options.get(each, "")) for each in ("--nfsadd", "--nfschange"))
        if new.keys() & there.keys() or changed.keys() - there.keys():
            raise Refused("mmnfs: A client is there already, or is none of this export.")
        there.update(new | changed)


def _clients(text: str) -> dict[str, list[str]]:
    """Out of `CLIENT(Access_Type=RW,Squash=root_squash);...`, as rows have them. Raises Refused."""
    found = {}
    for each in text.split(";") if text else ():
        said = _CLIENT.fullmatch(each)
        if said is None:
            raise Refused(f"mmnfs: Incorrect client: {each}")
        found[said[1]] = [said[2], said[3].upper()]
    return found


def ces_tables(cluster: CesCommands) -> Iterable[tuple[str, Iterable[Mapping[str, str]]]]:
    """Rows of `mmlscluster --ces -Y`. Raises Refused."""
    if not cluster.ces_nodes:
        raise Refused("mmlscluster: CES is not enabled on any node.")
    root, services = cluster.settings["cesSharedRoot@"], " ".join(cluster.ces_services) or "None"
    yield "cesSummary", [{"cesSharedRoot": root, "EnabledServices": services, "logLevel": "0"}]
    rows = [
        {"nodeNumber": str(number), "daemonNodeName": f"{name}.example.com", "ipAddress": "", "cesState": "e"}
        for number, name in enumerate(cluster.ces_nodes, start=1)
    ]
    yield "cesNode", rows


def ces_listed(cluster: CesCommands, command: str, words: Sequence[str]) -> str:
    """What commands of CES list. Raises Refused."""
    if not cluster.ces_nodes:
        raise Refused(f"{command}: CES is not enabled on any node.")
    if [command, *words] == ["mmces", "address", "list", "-Y"]:
        head = "mmces:addressList:HEADER:version:reserved:reserved:Address:Node:CesGroup:Attributes:\n"
        at = itertools.cycle(_serving(cluster) or ["unassigned"])
        rows = [f"mmces:addressList:0:1:::{each}:{next(at)}:none:none:\n" for each in cluster.ces_addresses]
        return head + "".join(rows)
    if [command, *words] == ["mmces", "state", "show", "-a", "-Y"]:
        return _states(cluster)
    if [command, *words] == ["mmuserauth", "service", "list"]:
        said = f"configuration : {cluster.file_accounts}" if cluster.file_accounts else "not configured"
        return f"FILE access {said}\nPARAMETERS               VALUES\n"
    if command != "mmnfs" or words[:2] != ["export", "list"] or words[-1] != "-Y":
        raise Refused(f"{command}: Incorrect option: {words}")
    return _exports(cluster, words[3] if "--nfsdefs" in words else None)


def _serving(cluster: CesCommands) -> list[str]:
    """Servers that take addresses."""
    well = [name for name in cluster.ces_nodes if name not in cluster.failed_services]
    return [name for name in well if cluster.state_of(name) == "active"]


def _states(cluster: CesCommands) -> str:
    """As real clusters print it; a server that is silent makes the command fail. Raises Refused."""
    if silent := [name for name in cluster.ces_nodes if not cluster.nodes[name].alive]:
        raise Refused(f"mmdsh: {silent[0]} remote shell process had return code 255.")
    text = "mmcesstate::HEADER:version:reserved:reserved:NODE:AUTH:BLOCK:NETWORK:AUTH_OBJ:NFS:OBJ:SMB:CES:\n"
    for name in cluster.ces_nodes:
        nfs = "HEALTHY" if name in _serving(cluster) else "FAILED"
        text += f"mmcesstate::0:1:::{name}.example.com:DISABLED:DISABLED:HEALTHY:DISABLED:{nfs}:DISABLED:"
        text += "DISABLED:HEALTHY:\n"
    return text


def _exports(cluster: CesCommands, path: str | None) -> str:
    """Without a path the columns that tell of options are not there."""
    if "NFS" not in cluster.ces_services or (path or "") not in ("", *cluster.nfs_exports):
        raise Refused("mmnfs: The NFS service is not enabled, or there is no such export.")
    if not cluster.nfs_exports:
        raise Refused("mmnfs: There are no exports to show.")
    start = "mmcesnfslsexport:nfsexports:"
    more = ":Access_Type:Protocols:Transports:Squash" if path else ""
    text = f"{start}HEADER:version:reserved:reserved:Path:Delegations:Clients{more}:\n"
    for name, clients in cluster.nfs_exports.items():
        for client, (access, squash) in clients.items() if path in (None, name) else ():
            options = f":{access}:3,4:TCP:{squash}" if path else ""
            text += f"{start}0:1:::{name}:none:{client}{options}:\n"
    return text


def shell(cluster: CesCommands, program: str, words: Sequence[str], here: str) -> tuple[int, str, str]:
    """Programs of the system, which see the mounted file system."""
    if program == "mountpoint":
        mounts = [each.mount_point for each in cluster.filesystems.values() if here in each.mounted]
        return (0 if words[-1] in mounts else 32), "", ""
    if program == "mkdir":
        cluster.directories.append(words[-1])
    return (0 if words[-1] in cluster.directories else 1), "", ""
