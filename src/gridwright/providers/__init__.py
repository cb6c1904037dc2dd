"""Where the nodes of a grid come from: this machine, a lab on it, a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


def head_node(spec: GridSpec) -> HeadNode:
    """How to reach the head node of a grid from here.

    Raises GridwrightError (ENVIRONMENT) where the grid is a lab that is not up, or its controller is not.
    """
    if spec.provider == "lab":
        from gridwright.providers.lab.head import LabHead

        return LabHead.of(spec)
    from gridwright.schedulers.head_node import ThisMachine

    return ThisMachine()
