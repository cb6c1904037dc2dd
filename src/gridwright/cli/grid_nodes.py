"""The nodes of a grid that can take work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridwright.errors import environment_error

if TYPE_CHECKING:
    from gridwright.schedulers.job import NodeState
    from gridwright.spec import GridSpec


def nodes_up(spec: GridSpec, known: Sequence[NodeState]) -> list[NodeState]:
    """The nodes that are up, of those that a scheduler knows.

    Raises GridwrightError (status ENVIRONMENT) where none is.
    """
    up = [node for node in known if node.up]
    if not up:
        why = "; ".join(f"{node.name} is {node.state}" for node in known[:4]) or "it knows none"
        raise environment_error(
            f"the scheduler of grid {spec.name} has no node that is up ({why})",
            where=str(spec.file) if spec.file else None,
            remedy="see why: gridwright status, or sinfo -R",
        )
    return up
