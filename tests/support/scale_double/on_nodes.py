"""The commands of the double on nodes of a lab: their state is on the nodes, which are asked by ssh.

`python -m tests.support.scale_double.on_nodes COMMAND …`.
"""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.scale_double import node
from tests.support.scale_double.cluster import Cluster, Node
from tests.support.scale_double.command import answer, stanzas_of
from tests.support.scale_double.rows import LISTING
from tests.support.scale_double.words import Refused

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1")
_FROM_A_COPY = ("mmlscluster", "mmlslicense", "mmlsnodeclass", "mmlsnsd", "mmlsconfig")
"""What this node's copy of the configuration answers alone."""


def remote(name: str, *words: str, stdin: str = "") -> str | None:
    """What a node prints; None where it is silent. Raises Refused."""
    done = subprocess.run(
        [*_SSH, name, "/usr/lpp/mmfs/bin/mmnode", *words],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == 255:
        return None
    if done.returncode:
        raise Refused(f"{name}: {' '.join(words)}: {done.stderr[-500:]}")
    return done.stdout


class OnNodes(Cluster):
    """A cluster whose devices are those of its servers."""

    reported: dict[str, str]

    def state_of(self, name: str) -> str:
        found = super().state_of(name)
        return found if found in ("unknown", "down") else self.reported.get(name, "arbitrating")

    def read_device(self, server: str, device: str) -> str | None:
        try:
            return remote(server, "identity", device)
        except Refused:
            return None

    def write_device(self, server: str, device: str, text: str) -> None:
        remote(server, "identify", device, stdin=text)


def gathered(words: Sequence[str], command: str) -> OnNodes:
    """The cluster as its nodes tell it, and what each said."""
    there = node.configuration()
    joining = (
        [line.partition(":")[0] for line in stanzas_of(command, words).split()] if _joins(command) else []
    )
    source = [words[words.index("-p") + 1]] if "-p" in words else []
    said = ask([*there.get("state", {}).get("nodes", {}), *joining, *source])
    copies = [each["configuration"] for each in said.values() if each and each["configuration"]]
    name = there.get("state", {}).get("name") or (copies[0]["state"]["name"] if source and copies else "")
    latest = max(
        (each for each in copies if each["state"]["name"] == name),
        key=lambda each: each["version"],
        default=there,
    )
    cluster = OnNodes.of(latest["state"]) if latest else OnNodes()
    cluster.here = socket.gethostname() if cluster.name else ""
    said = {**ask([each for each in cluster.nodes if each not in said]), **said}
    cluster.reported = {each: told["state"] for each, told in said.items() if told}
    for each in said:
        _tell(cluster, each, said[each])
    for system, filesystem in cluster.filesystems.items():
        filesystem.mounted = [one for one, told in said.items() if told and system in told["mounted"]]
    return cluster


def copied() -> OnNodes:
    """The cluster as this node's copy has it, which says nothing of who is there now."""
    copy = node.configuration()
    cluster = OnNodes.of(copy["state"]) if copy else OnNodes()
    cluster.here, cluster.reported = socket.gethostname(), {}
    for each in cluster.nodes.values():
        each.alive = each.configured = True
    return cluster


def _joins(command: str) -> bool:
    return command in ("mmcrcluster", "mmaddnode")


def _tell(cluster: OnNodes, name: str, told: dict[str, Any] | None) -> None:
    copy = told["configuration"].get("state", {}).get("name", "") if told else ""
    if name in cluster.nodes:
        member = cluster.nodes[name]
        member.alive, member.configured = told is not None, copy == cluster.name
        member.daemon = told is not None and told["state"] != "down"
    else:
        cluster.machines[name] = Node(False, False, alive=told is not None, foreign=copy)


def ask(names: Collection[str]) -> dict[str, Any]:
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda name: remote(name, "look"), names)
        return {name: json.loads(each) if each else None for name, each in zip(names, found, strict=True)}


def spread(before: dict[str, Any], after: OnNodes, version: int) -> None:
    """Make it so on the nodes: disks, the configuration, daemons, mounts."""
    for name, system in after.filesystems.items():
        if not system.device:
            disk = next(each for each in after.nsds.values() if each.filesystem == name)
            system.device = json.loads(remote(disk.servers[0], "mkfs", disk.device) or "null")
    state = {**after.state(), "calls": [], "machines": {}, "here": ""}
    text = json.dumps({"version": version, "state": state})
    there = [name for name, each in after.nodes.items() if each.alive and each.configured]
    ran = {name for name, each in before["nodes"].items() if each["daemon"]}
    mounted = {name: set(each["mounted"]) for name, each in before["filesystems"].items()}

    def change(name: str) -> None:
        words = []
        if after.nodes[name].daemon != (name in ran):
            words.append("stop" if name in ran else "start")
        for device, each in after.filesystems.items():
            had, has = name in mounted.get(device, ()), name in each.mounted
            words += [f"{'mount' if has else 'umount'}={device}"] if had != has else []
        remote(name, "put", *words, stdin=text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, there))


def main(command: str, *words: str) -> int:
    node.HOME.mkdir(exist_ok=True)
    with (node.HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_asked = command not in _FROM_A_COPY
        cluster = gathered(words, command) if is_asked else copied()
        before = cluster.state()
        status, printed, error = answer(cluster, command, words)
        if is_asked and not status and command not in LISTING:
            spread(before, cluster, time.time_ns())
    sys.stdout.write(printed)
    sys.stderr.write(error)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
