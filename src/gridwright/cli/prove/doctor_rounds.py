"""How the checks of nodes reach a grid of several nodes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gridwright.cli.prove.iotest_nodes import named_nodes
from gridwright.errors import GridwrightError, input_error, nearest

if TYPE_CHECKING:
    from gridwright.doctor.examination import Rounds
    from gridwright.doctor.observation import Promised
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec import GridSpec

SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=5")


def rounds_of(spec: GridSpec, chosen: str | None = None) -> Rounds | None:
    """How to look at every node, or those of a set such as `compute[1-4]`, through ssh from the head node.

    None where this machine is looked at. Raises GridwrightError: where the grid is not up (ENVIRONMENT), and
    for nodes that it does not have (INPUT).
    """
    if spec.is_one_machine or spec.is_bought:
        return None
    from gridwright.doctor.examination import Rounds
    from gridwright.providers import head_node

    head = head_node(spec)
    known = _known(spec, head)
    names = list(known.names) if chosen is None else chosen_names(known.names, chosen)
    down = {name: known.down[name] for name in names if name in known.down}
    return replace(_rounds(head, names, Rounds, down, known.promised), scheduler_silent=known.silent)


@dataclass(frozen=True, slots=True)
class _Known:
    """The nodes of a grid, and what its scheduler says of them."""

    names: Sequence[str]
    down: Mapping[str, str] = field(default_factory=dict)
    promised: Mapping[str, Promised] = field(default_factory=dict)
    silent: str | None = None


def _known(spec: GridSpec, head: HeadNode) -> _Known:
    """Raises GridwrightError where nobody says which nodes there are."""
    from gridwright.doctor.observation import Promised
    from gridwright.schedulers.opening import open_scheduler

    named = [node.name for node in named_nodes(spec)]
    if spec.scheduler.type == "ssh":
        return _Known(named)
    by_spec = all(group.hosts is not None for group in spec.nodes.values())
    try:
        states = open_scheduler(spec, head).nodes()
    except GridwrightError as error:
        if not by_spec:
            raise
        # Nodes are to be mended before their scheduler can be.
        return _Known(named, silent=error.problems[0].what)
    names = named if by_spec else [node.name for node in states]
    down = {node.name: node.standing for node in states if not node.up}
    strange = set(names) - {node.name for node in states}
    return _Known(
        names,
        down | dict.fromkeys(strange, "that it does not know it"),
        {node.name: Promised(node.cores, node.memory_bytes) for node in states if node.cores},
    )


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
    from gridwright.schedulers.slurm.node_facts import fold
    from gridwright.spec.hosts import expand_hosts
    from gridwright.yamltext.fields import FieldError

    try:
        wanted = expand_hosts(chosen)
    except FieldError as error:
        raise input_error(error.text, where="--nodes", remedy="write a set such as compute[1-4]") from error
    strange = [node for node in wanted if node not in names]
    if strange:
        near = nearest(strange[0], names)
        known = f"the nodes are {fold(names)}"
        raise input_error(
            f"the grid has no node {', '.join(strange[:4])}",
            where="--nodes",
            remedy=f"did you mean {near}? {known}" if near else known,
        )
    return [name for name in names if name in set(wanted)]
