"""The nodes of a grid for iotest: which they are, and how workers are started on them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridwright.cli.grid_nodes import nodes_up

if TYPE_CHECKING:
    from gridwright.iotest.coordinator import Fleet, GridNode
    from gridwright.schedulers.job import NodeState
    from gridwright.spec import GridSpec

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""What a worker needs of our environment."""


def fleet_of(spec: GridSpec) -> Fleet | None:
    """The nodes of a grid and what it takes to reach them; None where this machine alone is tested.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up, or no node of it is.
    """
    if spec.is_one_machine or spec.is_bought:
        return None
    from gridwright.iotest.coordinator import Fleet
    from gridwright.iotest.node_launcher import NodeLauncher, SchedulerLauncher, SshLauncher
    from gridwright.providers import head_node
    from gridwright.schedulers.opening import open_scheduler
    from gridwright.schedulers.state_directory import state_directory

    head = head_node(spec)
    launcher: NodeLauncher
    if spec.scheduler.type == "ssh":
        nodes, launcher = named_nodes(spec), SshLauncher(head)
    else:
        scheduler = open_scheduler(spec, head)
        nodes = chosen_nodes(spec, scheduler.nodes())
        launcher = SchedulerLauncher(
            scheduler,
            directory="/",
            environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            cores={node.name: node.cores for node in nodes if node.cores},
        )
    return Fleet(nodes, launcher, head.listen, state_directory(spec))


def named_nodes(spec: GridSpec) -> list[GridNode]:
    """The nodes of a grid without a queue, by the names that the spec gives them."""
    from gridwright.iotest.coordinator import GridNode

    return [
        GridNode(node, group.cores) for name, group in spec.nodes.items() for node in group.node_names(name)
    ]


def chosen_nodes(spec: GridSpec, known: Sequence[NodeState]) -> list[GridNode]:
    """The nodes that a scheduler knows; of a larger cluster as many as the grid has, idle ones first.

    Raises GridwrightError (status ENVIRONMENT) where none of them is up.
    """
    from gridwright.iotest.coordinator import GridNode

    nodes_up(spec, known)
    ranked = sorted(known, key=lambda node: (not node.up, node.free_cores < node.cores))
    chosen = {node.name for node in ranked[: spec.node_count()]}
    return [
        GridNode(node.name, node.cores or None, None if node.up else _absence(node))
        for node in known
        if node.name in chosen
    ]


def _absence(node: NodeState) -> str:
    return f"its scheduler says that it is {node.standing}"
