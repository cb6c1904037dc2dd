"""munge in a lab: nodes trust messages of Slurm that were made with the key of their lab."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gridwright.schedulers.in_lab import SchedulerNodes
from gridwright.services.daemon import make_directory, on_each, runs, start_daemon
from gridwright.services.service import ServiceNode

KEY = "/etc/munge/munge.key"
KEY_BYTES = 128
"""1024 bits, as mungekey(8) makes them."""
USER = "munge"


class Munge:
    """munged on every node that talks to Slurm."""

    name = "munged"
    patience_s = 30.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Put the lab's key on the nodes; only munged can read it."""
        key = lab.secret("munge.key", lambda: os.urandom(KEY_BYTES))

        def put(node: ServiceNode) -> None:
            node.write(KEY, key, mode=0o400, owner=USER)
            make_directory(node, "/etc/munge", "/var/lib/munge", "/var/log/munge", owner=USER, mode="0700")
            # Its socket is in there, for everybody.
            make_directory(node, "/run/munge", owner=USER)

        on_each(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start munged as its own user."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "munged"):
                start_daemon(
                    node,
                    ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/usr/sbin/munged"],
                )

        on_each(lab, nodes, start)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """A credential is made and read."""
        here = lab.nodes[node]
        made = here.run(["munge", "-n"], timeout_s=4.0)
        if made.status:
            return f"munge makes no credential: {made.stderr.decode(errors='replace').strip()}"
        read = here.run(["unmunge"], stdin=made.stdout, timeout_s=4.0)
        if read.status:
            return f"munge reads no credential: {read.stderr.decode(errors='replace').strip()}"
        return None
