"""Runs one command on many nodes at once, through ssh from the head node."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Sequence
from typing import Any

from gridwright.commands import CommandOutput
from gridwright.schedulers.head_node import HeadNode, for_remote_shell

_LOG = logging.getLogger("gridwright.grid")
FANOUT = 64
"""Connections at a time, ClusterShell's own default."""
CONNECT_S = 5
# It warns on stderr of a node that ends before it has read all: what the node answers tells more.
logging.getLogger("ClusterShell").addHandler(logging.NullHandler())


def on_nodes(
    head: HeadNode,
    nodes: Collection[str],
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout_s: float = 20.0,
) -> dict[str, CommandOutput | None]:
    """Run a command on nodes; the answer of each, None from one that did not answer in time.

    `timeout_s` holds for each node. The words of the command are quoted for the shell of the other side.
    """
    # First: what ClusterShell reads is settled there.
    from gridwright.spec.cluster_shell import NodeSet  # isort: skip
    from ClusterShell.Task import task_self, task_terminate

    if not nodes:
        return {}
    task = task_self()
    task.set_info("ssh_path", shlex.join(head.ssh([])))
    task.set_info("ssh_options", f"-oConnectTimeout={CONNECT_S}")
    task.set_info("fanout", FANOUT)
    task.set_default("stderr", True)
    try:
        worker = task.shell(for_remote_shell(command), nodes=NodeSet.fromlist(list(nodes)), timeout=timeout_s)
        worker.write(stdin)
        worker.set_write_eof()
        task.resume()
        late = {str(node) for node in task.iter_keys_timeout()}
        _LOG.info("ran %s on %d nodes; %d did not answer in time", command[0], len(nodes), len(late))
        return {node: None if node in late else _answer(task, node) for node in nodes}
    finally:
        task_terminate()


def _answer(task: Any, node: str) -> CommandOutput:  # noqa: ANN401 - ClusterShell has no types
    status, out, err = task.key_retcode(node), task.key_buffer(node), task.key_error(node)
    return CommandOutput(int(status), bytes(out or b""), bytes(err or b""))
