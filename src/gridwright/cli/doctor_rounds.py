"""How the checks of nodes reach a grid of several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gridwright.cli.iotest_nodes import named_nodes

if TYPE_CHECKING:
    from gridwright.nodes.doctor import Rounds
    from gridwright.spec import GridSpec


def rounds_of(spec: GridSpec) -> Rounds | None:
    """How to look at every node, through ssh from the head node; None where this machine is looked at.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    if spec.is_one_machine or spec.is_bought:
        return None
    from gridwright.grid.fanout import on_nodes
    from gridwright.grid.schedulers import open_scheduler
    from gridwright.nodes.doctor import Rounds
    from gridwright.providers import head_node

    head = head_node(spec)
    down: dict[str, str] = {}
    if spec.scheduler.type == "ssh":
        names = [node.name for node in named_nodes(spec)]
    else:
        states = open_scheduler(spec, head).nodes()
        names = [node.name for node in states]
        down = {node.name: node.standing for node in states if not node.up}

    def reach(
        command: Sequence[str], stdin: bytes, timeout_s: float
    ) -> Mapping[str, tuple[int, bytes, bytes] | None]:
        answers = on_nodes(head, names, command, stdin=stdin, timeout_s=timeout_s)
        return {
            node: (answer.status, answer.stdout, answer.stderr) if answer else None
            for node, answer in answers.items()
        }

    return Rounds(reach, head.run, down)
