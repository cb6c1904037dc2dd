"""Who may speak with a MooseFS: its own daemons and root, by passwords and by rules of each node's kernel.

A client of MooseFS says itself which user it acts for, so whoever speaks its protocol is root to the file
system: to the master, and through the port that each mount has for MooseFS' own tools, which asks for nothing
(`mfsclient/masterproxy.c`). Chunk servers ask nobody for anything. nftables know the user of a process.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gridwright.services.service import ServiceNode, ServiceNodes, call, run_on_nodes

USER = "mfs"
PORTS = "9419-9422"
"""Of a master for change logs, chunk servers and clients, and of chunk servers."""
PROXY = "127.94.21.1"
"""Where mounts listen for tools: an address of the loopback that nothing else uses, as the port is any."""
RULES = "/etc/mfs/gridwright.nft"
_TABLE = "inet gridwright_moosefs"
_LINE = 32
"""Bytes of a secret."""


def password(lab: ServiceNodes, filesystem: str) -> str:
    """By which mounts are let in. Raises GridwrightError (ENVIRONMENT)."""
    return _secret(lab, f"{filesystem}.mount")


def server_code(lab: ServiceNodes, filesystem: str) -> str:
    """By which chunk servers are let in. Raises GridwrightError (ENVIRONMENT)."""
    return _secret(lab, f"{filesystem}.servers")


def _secret(lab: ServiceNodes, name: str) -> str:
    return lab.secret(f"moosefs.{name}", lambda: secrets.token_hex(_LINE).encode()).decode()


class Guard:
    """Rules on every node of the lab: no process of a user's gets through to a daemon of MooseFS."""

    patience_s = 20.0

    def __init__(self, filesystem: str, nodes: Sequence[str]) -> None:
        self.name = f"moosefs-guard-{filesystem}"
        self.nodes = nodes

    def prepare(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Write the rules."""
        run_on_nodes(lab, nodes, lambda node: node.write(RULES, _rules(_number_of_user(node))))

    def start(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Put the rules into force. Raises GridwrightError: without them nothing of MooseFS is started."""
        run_on_nodes(lab, nodes, _load)

    def lacking(self, lab: ServiceNodes, node: str) -> str | None:
        """The rules are in force."""
        there = lab.nodes[node].run(["nft", "list", "table", *_TABLE.split()], timeout_s=4.0)
        return f"the rules of {RULES} are not in force" if there.status else None


def _load(node: ServiceNode) -> None:
    call(node, ["nft", "--file", RULES])


def _number_of_user(node: ServiceNode) -> int:
    return int(call(node, ["id", "-u", USER]))


def _rules(daemons: int) -> str:
    others = f"meta skuid != {{ 0, {daemons} }}"
    to_mounts, to_servers = f"ip daddr {PROXY} meta l4proto tcp", f"tcp dport {PORTS}"
    return f"""# Written by Gridwright. Who speaks with MooseFS says itself which user it is.
table {_TABLE}
delete table {_TABLE}
table {_TABLE} {{
    chain output {{
        type filter hook output priority filter; policy accept;
        {to_servers} {others} counter reject with tcp reset
        {to_mounts} {others} counter reject with tcp reset
    }}
    # Of containers, whoever runs in them.
    chain forward {{
        type filter hook forward priority filter; policy accept;
        {to_servers} counter reject with tcp reset
    }}
}}
"""
