"""The nodes of a grid: which they are, by the spec and by their scheduler, and one command run on many."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error, input_error, nearest
from gridwright.schedulers.head_node import HeadNode, for_remote_shell
from gridwright.schedulers.job import NodeState
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class GridNode:
    """A node that a program is to run on: its name, and the physical cores that jobs may use."""

    name: str
    cores: int | None = None
    """None: those that it has."""
    absent: str | None = None
    """Why it cannot be used, as its scheduler says: it is not asked then."""


@dataclass(frozen=True, slots=True)
class Promised:
    """What a scheduler takes a node for: physical cores, and memory in bytes."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """All nodes of a grid, and what its scheduler says of them."""

    names: Sequence[str]
    down: Mapping[str, str] = field(default_factory=dict)
    """Nodes that the scheduler gives no jobs, and its word for why."""
    promised: Mapping[str, Promised] = field(default_factory=dict)
    scheduler_silent: str | None = None
    """Why the scheduler says nothing of nodes, where it does not answer."""
    asleep: Sequence[str] = ()
    """Nodes that are off until a job waits for them; they cannot be asked."""


def nodes_of_spec(spec: GridSpec) -> list[GridNode]:
    """The nodes of a grid by the names that its spec gives them."""
    return [
        GridNode(node, group.cores) for name, group in spec.nodes.items() for node in group.node_names(name)
    ]


def names_its_nodes(spec: GridSpec) -> bool:
    """Whether the spec has the host name of every node."""
    return all(group.hosts is not None for group in spec.nodes.values())


def known_nodes(spec: GridSpec, states: Sequence[NodeState]) -> KnownNodes:
    """The nodes of a grid whose scheduler has answered."""
    names = (
        [node.name for node in nodes_of_spec(spec)]
        if names_its_nodes(spec)
        else [node.name for node in states]
    )
    asleep = [node.name for node in states if node.asleep]
    down = {node.name: node.standing for node in states if not node.up and not node.asleep}
    strange = set(names) - {node.name for node in states}
    return KnownNodes(
        names,
        down | dict.fromkeys(strange, "that it does not know it"),
        {node.name: Promised(node.cores, node.memory_bytes) for node in states if node.cores},
        asleep=asleep,
    )


def nodes_up(spec: GridSpec, states: Sequence[NodeState]) -> list[NodeState]:
    """The nodes that are up, of those that a scheduler knows.

    Raises GridwrightError (status ENVIRONMENT) where none is.
    """
    up = [node for node in states if node.up]
    if not up:
        why = "; ".join(f"{node.name} is {node.state}" for node in states[:4]) or "it knows none"
        asleep = any(node.asleep for node in states)
        raise environment_error(
            f"the scheduler of grid {spec.name} has no node that is up ({why})",
            where=str(spec.file) if spec.file else None,
            remedy=_WAKE if asleep else "see why: gridwright status, or sinfo -R",
        )
    return up


def nodes_for_test(spec: GridSpec, states: Sequence[NodeState]) -> list[GridNode]:
    """The nodes that a scheduler knows; of a larger cluster as many as the grid has, idle ones first.

    Raises GridwrightError (status ENVIRONMENT) where none of them is up.
    """
    nodes_up(spec, states)
    # What is off costs nothing now; it is neither lost nor tested.
    states = [node for node in states if not node.asleep]
    ranked = sorted(states, key=lambda node: (not node.up, node.free_cores < node.cores))
    chosen = {node.name for node in ranked[: spec.node_count()]}
    return [
        GridNode(node.name, node.cores or None, None if node.up else _absence(node))
        for node in states
        if node.name in chosen
    ]


_WAKE = (
    "its nodes are off until a job waits for them: hand one in (gridwright submit -- sleep 600), or have the "
    "administrator write min: 1"
)


def _absence(node: NodeState) -> str:
    return f"its scheduler says that it is {node.standing}"


def names_in_set(names: Collection[str], chosen: str, where: str) -> list[str]:
    """The nodes of a set such as `compute[1-4]`, in the grid's order; `where` is what names the set.

    Raises GridwrightError (INPUT) for a set that cannot be read, and for nodes that the grid does not have.
    """
    from gridwright.spec.hosts import expand_hosts, fold_hosts
    from gridwright.yamltext.fields import FieldError

    try:
        desired = expand_hosts(chosen)
    except FieldError as error:
        raise input_error(error.text, where=where, remedy="write a set such as compute[1-4]") from error
    strange = [node for node in desired if node not in names]
    if strange:
        near = nearest(strange[0], names)
        known = f"the nodes are {fold_hosts(names)}"
        raise input_error(
            f"the grid has no node {', '.join(strange[:4])}",
            where=where,
            remedy=f"did you mean {near}? {known}" if near else known,
        )
    return [name for name in names if name in set(desired)]


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
