"""The hardware of nodes as `slurm.conf` declares it: names, cores and memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gridwright.errors import environment_error
from gridwright.schedulers.machines import NodeHardware
from gridwright.spec.hosts import fold_hosts

MIB = 1 << 20


def parse_slurmd_hardware(text: str) -> NodeHardware:
    """What `slurmd -C` prints of the node that it runs on. Raises GridwrightError (status ENVIRONMENT)."""
    found = dict(re.findall(r"\b(\w+)=(\S+)", text))
    try:
        boards, per_board = int(found.get("Boards", 1)), found.get("SocketsPerBoard")
        facts = NodeHardware(
            name=found["NodeName"],
            sockets=boards * int(per_board) if per_board else int(found.get("Sockets", 1)),
            cores_per_socket=int(found["CoresPerSocket"]),
            threads_per_core=int(found["ThreadsPerCore"]),
            memory_bytes=int(found["RealMemory"]) * MIB,
        )
    except (KeyError, ValueError) as error:
        raise environment_error(
            f"slurmd -C does not describe a node: {text.strip()[:200]!r}",
            remedy="See whether slurmd of releases 22.05 to 24.11 is installed",
        ) from error
    if min(facts.sockets, facts.cores_per_socket, facts.threads_per_core, facts.memory_bytes) < 1:
        raise environment_error(
            f"slurmd -C describes a node without cores or memory: {text.strip()[:200]!r}",
            remedy="run slurmd -C on that node by hand, and see whether /proc and /sys are mounted there",
        )
    return facts


def node_line(node: NodeHardware, names: Iterable[str], declared: bool, state: str = "UNKNOWN") -> str:
    """The line of `slurm.conf` for nodes that are like `node`.

    CPUs is the number of cores where a core has several threads, too: Slurm then gives out cores, never
    threads (slurm.conf(5), CPUs). Cores that jobs must not use are set aside by CoreSpecCount. `declared`:
    what is said here counts, whatever slurmd finds.
    """
    parts = [
        f"NodeName={fold_hosts(names)}",
        f"CPUs={node.all_cores}",
        f"Sockets={node.sockets}",
        f"CoresPerSocket={node.cores_per_socket}",
        f"ThreadsPerCore={node.threads_per_core}",
        f"RealMemory={node.memory_bytes // MIB}",
    ]
    if not declared and node.usable_cores < node.all_cores:
        parts.append(f"CoreSpecCount={node.all_cores - node.usable_cores}")
    return " ".join([*parts, f"State={state}"])
