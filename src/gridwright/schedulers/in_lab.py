"""Nodes of a lab, as the services of a scheduler see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gridwright.services.service import ServiceNodes
from gridwright.spec.model import GridSpec


class LabCgroups(Protocol):
    """What the nodes of a lab have of control groups."""

    @property
    def kind(self) -> str:
        """v1, v2 or none."""

    @property
    def controllers(self) -> Sequence[str]:
        """Such as freezer, memory, cpuset, pids: those that nodes can use."""

    @property
    def mountpoint(self) -> str:
        """Where nodes see them; with v1, each controller in a directory of its name below."""


class SchedulerNodes(ServiceNodes, Protocol):
    """The nodes that are up, and what services of a scheduler have to know of the lab."""

    @property
    def spec(self) -> GridSpec:
        """The grid spec."""

    @property
    def controller(self) -> str:
        """The name of the node that the scheduler's own service runs on, whether it is up or not."""

    @property
    def state(self) -> Path:
        """The state directory, at the same path on all nodes and here."""

    @property
    def cgroups(self) -> LabCgroups:
        """What nodes have of control groups."""

    @property
    def health(self) -> Mapping[str, Any]:
        """What nodes that run jobs must have mounted, as node_programs/health/configuration.py reads it."""
