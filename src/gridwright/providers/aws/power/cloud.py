"""What powering nodes asks of the cloud: one Auto Scaling group, and the table of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class GroupState:
    """An Auto Scaling group."""

    name: str
    """As AWS has it."""
    least: int
    most: int
    desired: int
    machines: tuple[str, ...] = ()
    """Instances that are there or start; what ends is none of them."""


@dataclass(frozen=True)
class StartTry:
    """A try of the group to start a machine."""

    state: str
    """As AWS has it: InProgress, Successful, Failed, Cancelled and others."""
    began: float
    reason: str = ""


@dataclass(frozen=True)
class TableState:
    """What the table says of nodes of a group."""

    owners: Mapping[str, str] = field(default_factory=dict)
    """The instance that a node is, or was."""
    wanted: Mapping[str, float] = field(default_factory=dict)
    """Powered nodes that are wanted on, and since when."""


class PowerCloud(Protocol):
    """The cloud. Every call raises SupplyError where it is not answered, or not allowed."""

    def group(self, name: str) -> GroupState:
        """The Auto Scaling group of a group of nodes."""

    def table(self, nodes: Sequence[str]) -> TableState:
        """What the table says of nodes, as it is at this moment."""

    def starts(self, group: GroupState) -> Sequence[StartTry]:
        """Its latest tries to start machines, the newest first."""

    def want(self, node: str, now: float) -> None:
        """Write down that a node is wanted on."""

    def want_no_more(self, node: str) -> None:
        """Take that away."""

    def resize(self, group: GroupState, desired: int) -> None:
        """Have the group have so many machines."""

    def end(self, machine: str, *, shrink: bool) -> None:
        """Terminate a machine of a group, which is to be smaller by one then or to start another one."""
