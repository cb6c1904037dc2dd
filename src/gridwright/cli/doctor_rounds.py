"""How the checks of nodes reach a grid of several nodes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gridwright.cli.iotest_nodes import named_nodes
from gridwright.errors import input_error, nearest

if TYPE_CHECKING:
    from gridwright.grid.head import HeadNode
    from gridwright.nodes.doctor import Rounds
    from gridwright.nodes.seen import Promised
    from gridwright.spec import GridSpec

SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=5")


def rounds_of(spec: GridSpec, chosen: str | None = None) -> Rounds | None:
    """How to look at every node, or those of a set such as `compute[1-4]`, through ssh from the head node.

    None where this machine is looked at. Raises GridwrightError: where the grid is not up (ENVIRONMENT), and
    for nodes that it does not have (INPUT).
    """
    if spec.is_one_machine or spec.is_bought:
        return None
    from gridwright.grid.schedulers import open_scheduler
    from gridwright.nodes.doctor import Rounds
    from gridwright.nodes.seen import Promised
    from gridwright.providers import head_node

    head = head_node(spec)
    down: dict[str, str] = {}
    promised: dict[str, Promised] = {}
    if spec.scheduler.type == "ssh":
        names = [node.name for node in named_nodes(spec)]
    else:
        states = open_scheduler(spec, head).nodes()
        names = [node.name for node in states]
        down = {node.name: node.standing for node in states if not node.up}
        promised = {node.name: Promised(node.cores, node.memory_bytes) for node in states if node.cores}
    if chosen is not None:
        names = chosen_names(names, chosen)
    return _rounds(head, names, Rounds, {name: down[name] for name in names if name in down}, promised)


def _rounds(
    head: HeadNode,
    names: Sequence[str],
    make: type[Rounds],
    down: Mapping[str, str],
    promised: Mapping[str, Promised],
) -> Rounds:
    from gridwright.grid.fanout import on_nodes

    def reach(
        command: Sequence[str], stdin: bytes, timeout_s: float
    ) -> Mapping[str, tuple[int, bytes, bytes] | None]:
        answers = on_nodes(head, names, command, stdin=stdin, timeout_s=timeout_s)
        return {
            node: (answer.status, answer.stdout, answer.stderr) if answer else None
            for node, answer in answers.items()
        }

    def attach(node: str, command: Sequence[str]) -> Sequence[str]:
        return head.argv([*SSH, node, shlex.join(command)])

    return make(reach, head.run, down, attach, promised)


def chosen_names(names: Collection[str], chosen: str) -> list[str]:
    """The nodes of a set, in the grid's order. Raises GridwrightError (INPUT)."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        wanted = [str(node) for node in NodeSet(chosen)]
    except NodeSetException as error:
        raise input_error(
            f"{chosen!r} is no set of nodes: {error}",
            where="--nodes",
            remedy="write one such as compute[1-4]",
        ) from error
    strange = [node for node in wanted if node not in names]
    if strange or not wanted:
        near = nearest(strange[0], names) if strange else None
        known = f"the nodes are {NodeSet.fromlist(list(names))}"
        raise input_error(
            f"the grid has no node {', '.join(strange[:4]) or chosen!r}",
            where="--nodes",
            remedy=f"did you mean {near}? {known}" if near else known,
        )
    return [name for name in names if name in set(wanted)]
