"""Decides what is to be done about one group. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Union

from gridwright.providers.aws.power.cloud import GroupState, StartTry, TableState
from gridwright.providers.aws.power.configuration import PoweredGroup


@dataclass(frozen=True)
class Want:
    """Write down that a node is wanted on, before there is a machine that could claim it."""

    node: str

    def __str__(self) -> str:
        return f"{self.node} is wanted on"


@dataclass(frozen=True)
class WantNoMore:
    """Take that away, before its machine ends: no other one claims it."""

    node: str

    def __str__(self) -> str:
        return f"{self.node} is wanted no more"


@dataclass(frozen=True)
class End:
    """Terminate a machine."""

    machine: str
    shrink: bool
    why: str

    def __str__(self) -> str:
        return f"{self.machine} ends: {self.why}"


@dataclass(frozen=True)
class Resize:
    """Have a group have so many machines."""

    desired: int
    before: int

    def __str__(self) -> str:
        return f"{self.desired} machines instead of {self.before}"


Step = Union[Want, WantNoMore, End, Resize]  # noqa: UP007 - 3.9


def steps(
    group: PoweredGroup, wanted: frozenset[str], state: GroupState, table: TableState
) -> Iterator[Step]:
    """What to do, in order, so that the group has one machine for each node that is wanted, and no other.

    Each step may be the last one that is carried out: what follows is found again from what there is then.
    """
    if state.most == 0:
        return  # The grid is stopped, or on its way.
    nodes = frozenset(group.always_on) | (wanted & frozenset(group.powered))
    for node in group.powered:
        if node in nodes and node not in table.wanted:
            yield Want(node)
        if node not in nodes and node in table.wanted:
            yield WantNoMore(node)
    there = set(state.machines)
    target = min(len(nodes), state.most)
    desired = state.desired
    ended = 0
    for machine, why in _unwanted(group, nodes, state, table):
        # Where the group is no larger than it should be, another one takes the place of what is not wanted.
        shrink = desired > max(target, state.least)
        yield End(machine, shrink, why)
        desired -= shrink
        ended += 1
    # Lowered below what is there, the group would choose by itself which machines end.
    aim = max(target, len(there) - ended, state.least) if target < desired else target
    if aim != desired:
        yield Resize(aim, desired)


def _unwanted(
    group: PoweredGroup, nodes: frozenset[str], state: GroupState, table: TableState
) -> Iterator[tuple[str, str]]:
    """Machines that are of no use: nodes that are off, and those that found no node to become."""
    there = set(state.machines)
    owned = {table.owners[node]: node for node in group.nodes if table.owners.get(node) in there}
    for machine, node in owned.items():
        if node not in nodes:
            yield machine, f"{node} is off"
    free = len(nodes) - sum(node in nodes for node in owned.values())
    idle = sorted(there - owned.keys())
    for machine in idle[: max(0, len(idle) - free)]:
        yield machine, "there is no node for it to be"


def hopeless(
    group: PoweredGroup,
    wanted: frozenset[str],
    state: GroupState,
    table: TableState,
    starts: Sequence[StartTry],
) -> dict[str, str]:
    """Powered nodes that are wanted, that no machine is on its way for, and why there is none."""
    lacking = without_machine(group, wanted, state, table)
    if not lacking or any(each.state in _GOING_ON for each in starts):
        return {}
    found = {}
    for node in lacking:
        since = table.wanted.get(node)
        failed = [each for each in starts if each.state in _FAILED and since and each.began >= since]
        if failed:
            found[node] = f"EC2 gives no {group.instance} now: {failed[0].reason}"
    return found


def without_machine(
    group: PoweredGroup, wanted: frozenset[str], state: GroupState, table: TableState
) -> list[str]:
    """Powered nodes that are wanted and for which no machine is there, not even one without a name yet."""
    there = set(state.machines)
    owned = {node: table.owners[node] for node in group.nodes if table.owners.get(node) in there}
    coming = len(there) - len(set(owned.values()))
    free_always = sum(node not in owned for node in group.always_on)
    lacking = [node for node in group.powered if node in wanted and node not in owned]
    return lacking[max(0, coming - free_always) :]


_GOING_ON = ("PendingSpotBidPlacement", "WaitingForSpotInstanceRequestId", "WaitingForSpotInstanceId",
             "WaitingForInstanceId", "PreInService", "InProgress", "WaitingForInstanceWarmup")  # fmt: skip
_FAILED = ("Failed", "Cancelled")
"""States of an activity (Amazon EC2 Auto Scaling API Reference, Activity)."""
