"""MooseFS in a lab: its daemons on storage nodes, mounts on nodes that use it, and who may speak with them.

A client of MooseFS says itself which user it acts for, so whoever speaks its protocol is root to the file
system: to the master, and through the port that each mount has for MooseFS' own tools, which asks for nothing
(`mfsclient/masterproxy.c`). Chunk servers ask nobody for anything. So its own daemons and root alone may, by
passwords and by rules of each node's kernel: nftables know the user of a process.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.filesystems.kind import UNTRUSTED
from gridwright.filesystems.moosefs.health import connected_servers
from gridwright.services.service import (
    ServiceNode,
    ServiceNodes,
    call,
    last_words,
    make_directory,
    run_on_nodes,
    runs,
    start_daemon,
)

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


def _server_code(lab: ServiceNodes, filesystem: str) -> str:
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


CONFIGURATION = "/etc/mfs"
STATE = "/var/lib/mfs"
PORT = 9422
"""Of a chunk server, for clients."""
NICE = 0
"""Of daemons and mounts: with -19, their default, what runs on nodes of the same machine gets no core."""
TRIES = 15
"""How often a mount tries to read or write before it reports the error: for 28 s (measured on full disks; by
default it tries 30 times, for two minutes)."""
_SECRET: Mapping[str, Any] = {"mode": 0o400, "owner": USER}
"""Of files that have what lets somebody in; a daemon reads them again as its own user."""
_EMPTY = b"MFSM NEW"
"""Metadata of a file system with nothing in it (mfsmaster(8))."""
_LOOK_AGAIN_S = 0.25
"""How long an answer of the master serves for all chunk servers: mfscli takes 0.2 s of a core each time."""


class Master:
    """mfsmaster on the first storage node of a file system."""

    patience_s = 40.0

    def __init__(self, filesystem: str, server: str) -> None:
        self.name = f"mfsmaster-{filesystem}"
        self._filesystem = filesystem
        self.nodes: Sequence[str] = [server]

    def prepare(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Write its configuration, and an empty file system where there is none yet."""
        node = lab.nodes[nodes[0]]
        make_directory(node, STATE, owner=USER)
        node.write(
            f"{CONFIGURATION}/mfsmaster.cfg",
            _settings(
                WORKING_USER=USER,
                WORKING_GROUP=USER,
                NICE_LEVEL=NICE,
                DATA_PATH=STATE,
                EXPORTS_FILENAME=f"{CONFIGURATION}/mfsexports.cfg",
                TOPOLOGY_FILENAME=f"{CONFIGURATION}/mfstopology.cfg",
                # Locks of a node that is powered off are freed after this; less changes nothing (measured).
                SESSION_SUSTAIN_TIME=60,
                # In the foreground: a helper process that is killed with the master loses what was answered.
                CHANGELOG_SAVE_MODE=1,
                # Copies that a lost chunk server had are made anew soon after the start of a lab.
                REPLICATIONS_DELAY_INIT=10,
                AUTH_CODE=_server_code(lab, self._filesystem),
            ),
            **_SECRET,
        )
        secret = password(lab, self._filesystem)
        node.write(
            f"{CONFIGURATION}/mfsexports.cfg",
            f"{lab.network} / rw,alldirs,maproot=0:0,password={secret}\n",
            **_SECRET,
        )
        node.write(f"{CONFIGURATION}/mfstopology.cfg", "")
        there = ["sh", "-c", f"ls {STATE}/metadata.mfs* {STATE}/changelog.*.mfs 2>/dev/null"]
        if not node.run(there).stdout.strip():
            node.write(f"{STATE}/metadata.mfs", _EMPTY, owner=USER)

    def start(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Start it; after a crash it puts its metadata together from its change logs first."""
        node = lab.nodes[nodes[0]]
        if runs(node, "mfsmaster"):
            return
        command = ["mfsmaster", "-c", f"{CONFIGURATION}/mfsmaster.cfg"]
        if node.start([*command, "start"]).status:
            start_daemon(node, [*command, "-a", "start"])

    def lacking(self, lab: ServiceNodes, node: str) -> str | None:
        """It runs: that it answers is seen by the chunk servers."""
        return None if runs(lab.nodes[node], "mfsmaster") else "mfsmaster does not run"


class ChunkServers:
    """mfschunkserver on all storage nodes of a file system."""

    patience_s = 40.0

    def __init__(self, filesystem: str, servers: Sequence[str], *, directory: str, keep_free: str) -> None:
        self._directory = directory
        self._keep_free = keep_free
        self.name = f"mfschunkserver-{filesystem}"
        self._filesystem = filesystem
        self.nodes = servers
        self._seen: frozenset[str] = frozenset()
        self._seen_at = float("-inf")
        self._lock = threading.Lock()

    def prepare(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Write their configuration, and make the directories of their data."""
        code = _server_code(lab, self._filesystem)

        def put(node: ServiceNode) -> None:
            state = f"{STATE}/chunkserver"
            make_directory(node, STATE, state, self._directory, owner=USER)
            node.write(f"{CONFIGURATION}/mfshdd.cfg", f"{self._directory}\n")
            node.write(
                f"{CONFIGURATION}/mfschunkserver.cfg",
                _settings(
                    WORKING_USER=USER,
                    WORKING_GROUP=USER,
                    NICE_LEVEL=NICE,
                    DATA_PATH=state,
                    HDD_CONF_FILENAME=f"{CONFIGURATION}/mfshdd.cfg",
                    HDD_LEAVE_SPACE_DEFAULT=self._keep_free,
                    MASTER_HOST=self.nodes[0],
                    MASTER_RECONNECTION_DELAY=1,
                    BIND_HOST=node.address,
                    CSSERV_LISTEN_HOST=node.address,
                    CSSERV_LISTEN_PORT=PORT,
                    AUTH_CODE=code,
                ),
                **_SECRET,
            )

        run_on_nodes(lab, nodes, put)

    def start(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Start them."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "mfschunkserver"):
                start_daemon(node, ["mfschunkserver", "-c", f"{CONFIGURATION}/mfschunkserver.cfg", "start"])

        run_on_nodes(lab, nodes, start)

    def lacking(self, lab: ServiceNodes, node: str) -> str | None:
        """The master has it among its servers."""
        master = lab.nodes.get(self.nodes[0])
        if master is None:
            return f"{self.nodes[0]}, which has the master, is powered off"
        if lab.nodes[node].address in self._connected(master):
            return None
        if not runs(lab.nodes[node], "mfschunkserver"):
            return "mfschunkserver does not run"
        return f"it is not connected to the master on {self.nodes[0]}"

    def _connected(self, master: ServiceNode) -> frozenset[str]:
        """Addresses of the servers that are connected, as they were a moment ago."""
        with self._lock:
            if time.monotonic() - self._seen_at > _LOOK_AGAIN_S:
                servers = connected_servers(master.run, master.name)
                # One that has just connected has not told yet how much room it has.
                serve = [server.name for server in servers if server.up and server.capacity_bytes]
                self._seen = frozenset(name.rpartition(":")[0] for name in serve)
                self._seen_at = time.monotonic()
            return self._seen


class MountPoint:
    """The file system, mounted on the nodes that use it."""

    patience_s = 40.0

    def __init__(
        self, filesystem: str, path: str, server: str, nodes: Sequence[str], *, copies: int, suid: bool
    ) -> None:
        self.name = f"mount-{filesystem}"
        self._filesystem = filesystem
        self._options = f"{CONFIGURATION}/mount-{filesystem}.cfg"
        self.nodes = nodes
        self._server = server
        self._copies = copies
        self._path = path
        self._protection = () if suid else UNTRUSTED

    def prepare(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Write the password, for root alone, and make the directory that it is mounted on."""
        secret = password(lab, self._filesystem)

        def make(node: ServiceNode) -> None:
            # In a file: what stands on a command line is in /proc for all to read.
            node.write(self._options, f"mfspassword={secret}\n", mode=0o600)
            if not self._mounted(node):
                make_directory(node, self._path)

        run_on_nodes(lab, nodes, make)

    def start(self, lab: ServiceNodes, nodes: Sequence[str]) -> None:
        """Mount it, and have all that is made in it kept as often as the spec says."""

        def mount(node: ServiceNode) -> None:
            if self._mounted(node) and self._abandoned(node):
                call(node, ["umount", "-l", self._path])
            if not self._mounted(node):
                own = (f"mfscfgfile={self._options}", f"mfsproxy={PROXY}", *self._protection)
                options = ",".join((f"mfsioretries={TRIES},mfsnice={NICE}", *own))
                start_daemon(node, ["mfsmount", self._path, "-H", self._server, "-o", options])

        run_on_nodes(lab, nodes, mount)
        first = lab.nodes[nodes[0]]
        call(first, ["mfssetgoal", str(self._copies), self._path])
        # Without this, removed files fill the disk of this machine for a day.
        call(first, ["mfssettrashtime", "0", self._path])

    def lacking(self, lab: ServiceNodes, node: str) -> str | None:
        """It is mounted, and what is written there is taken."""
        here = lab.nodes[node]
        if not self._mounted(here):
            return f"{self._path} is not mounted"
        probe = f"{self._path}/.gridwright-{node}"
        write = ["dd", "if=/dev/zero", f"of={probe}", "bs=4096", "count=1", "conv=fsync"]
        try:
            answer = here.run(write, timeout_s=4.0)
        except GridwrightError:
            return f"a write to {self._path} takes more than 4 s"
        if answer.status:
            return f"{self._path} cannot be written to: {last_words(answer.stderr)}"
        here.run(["rm", "-f", "--", probe], timeout_s=4.0)
        return None

    def _abandoned(self, node: ServiceNode) -> bool:
        """Whether the mount is left of a mfsmount that died; one that waits for its master is not."""
        try:
            answer = node.run(["stat", "--format=%i", self._path], timeout_s=4.0)
        except GridwrightError:
            return False
        return b"not connected" in answer.stderr

    def _mounted(self, node: ServiceNode) -> bool:
        return self._path in mount_points(call(node, ["cat", "/proc/mounts"]).decode(errors="replace"))


def mount_points(mounts: str) -> list[str]:
    """Where file systems of MooseFS are mounted, out of a `/proc/mounts`."""
    fields = [line.split() for line in mounts.splitlines()]
    return [
        field[1].replace("\\040", " ")
        for field in fields
        if len(field) > 2 and field[2].startswith("fuse") and field[0].startswith(("mfs#", "mfs\\043"))
    ]


def _settings(**values: object) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())
