"""Commands of Cluster Export Services (CES), with what IBM's manual says that they refuse."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from tests.support.scale_double.words import Refused, options_in

EXPORTING = ("mmces", "mmnfs", "mmuserauth")
_CLIENT = re.compile(r"[\w.-]+(/\d+)?\(Access_Type=(RO|RW),Squash=(root_squash|no_root_squash)\)")


class ExportCommands:
    """Commands that set up NFS; what they change are fields of the cluster."""

    nodes: dict[str, Any]
    filesystems: dict[str, Any]
    settings: dict[str, str]
    ces_nodes: list[str]
    ces_addresses: list[str]
    ces_services: list[str]
    file_authentication: str
    exports: dict[str, str]
    directories: list[str]

    def enable_ces(self, name: str) -> None:
        """mmchnode --ces-enable."""
        if not self.settings.get("cesSharedRoot@"):
            raise Refused("mmchnode: the cesSharedRoot is not set.")
        if self.nodes[name].licence != "server":
            raise Refused(f"Node {name} has no server license.")
        self.ces_nodes.append(name)

    def check_shared_root(self, value: str) -> None:
        """mmchconfig cesSharedRoot=: in a file system that is mounted, with no CES node at work."""
        if any(self.nodes[name].daemon for name in self.ces_nodes):
            raise Refused("mmchconfig: GPFS must be down on all CES nodes.")
        if value not in self.directories or not self._is_mounted(value):
            raise Refused(f"mmchconfig: {value} is not available.")

    def _is_mounted(self, path: str) -> bool:
        return any(
            path.startswith(f"{each.mount_point}/") and each.mounted for each in self.filesystems.values()
        )

    def _mmces(self, words: list[str], _: str) -> None:
        if words[:2] == ["address", "add"]:
            addresses = options_in(words[2:], {"--ces-ip"}, set())["--ces-ip"].split(",")
            if not self.ces_nodes:
                raise Refused("mmces address add: There are no CES nodes in the cluster.")
            if known := set(addresses) & set(self.ces_addresses):
                raise Refused(f"mmces address add: {known} is already assigned.")
            self.ces_addresses += [str(ipaddress.IPv4Address(each)) for each in addresses]
        elif words[:2] == ["service", "enable"] and words[2] == "NFS" and self.ces_nodes:
            self.ces_services.append("NFS")
        else:
            raise Refused(f"mmces: Incorrect option: {' '.join(words)}")

    def _mmuserauth(self, words: list[str], _: str) -> None:
        wanted = options_in(words[2:], {"--data-access-method", "--type"}, set())
        if words[:2] != ["service", "create"] or wanted["--data-access-method"] != "file":
            raise Refused("mmuserauth: Incorrect option.")
        if "NFS" not in self.ces_services or self.file_authentication:
            raise Refused("mmuserauth: no protocol is enabled, or authentication is configured already.")
        self.file_authentication = wanted["--type"]

    def _mmnfs(self, words: list[str], _: str) -> None:
        if words[:2] != ["export", "add"] or "NFS" not in self.ces_services:
            raise Refused("mmnfs: NFS is not enabled.")
        path, clients = words[2], options_in(words[3:], {"--client"}, set())["--client"]
        if not self.file_authentication:
            raise Refused("mmnfs export add: file authentication is not configured.")
        if path in self.exports or path not in self.directories or not self._is_mounted(path):
            raise Refused(f"mmnfs export add: {path} is shown already, or is no directory of GPFS.")
        if not all(_CLIENT.fullmatch(each) for each in clients.split(";")):
            raise Refused(f"mmnfs export add: Invalid client options: {clients}")
        self.exports[path] = clients

    def directory_command(self, command: str, words: Sequence[str]) -> int:
        """`test -d` and `mkdir -p` on the node of the commands; their exit status."""
        if command == "mkdir":
            self.directories.append(words[-1])
            return 0
        return 0 if words[-1] in self.directories else 1


def printed_exports(cluster: Any, command: str, words: Sequence[str]) -> str:
    """What lists of CES print for people, as IBM's manual shows it. Raises Refused."""
    if command == "mmuserauth":
        state = cluster.file_authentication
        told = f"FILE access configuration : {state.upper()}" if state else "FILE access not configured"
        return f"{told}\nPARAMETERS               VALUES\n-------------------------------\n"
    if not cluster.ces_nodes:
        raise Refused(f"{command}: There are no CES nodes defined in the cluster.")
    if command == "mmnfs":
        rows = [f"{path}  NONE  {clients.partition('(')[0]}" for path, clients in cluster.exports.items()]
        return "\n".join(["Path            Delegations  Clients", "-" * 40, *rows, ""])
    if words[0] == "node":
        rows = [f" {at}     {name}.example.com   none  none" for at, name in enumerate(cluster.ces_nodes)]
        return "\n".join([" Number  Name  Node Groups  Node Flags", "-" * 40, *rows, ""])
    if words[0] == "address":
        rows = [f"{each}   {cluster.ces_nodes[0]}  none  none" for each in cluster.ces_addresses]
        return "\n".join(["Address   Node   Ces Group   Attributes", "-" * 40, *rows, ""])
    enabled = " ".join(cluster.ces_services) or "None"
    return f"Enabled services: {enabled}\n" + "".join(f"{each} is running\n" for each in cluster.ces_services)
