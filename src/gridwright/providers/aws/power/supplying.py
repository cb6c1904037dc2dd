"""The machines of a grid on AWS as a supply of nodes."""

from __future__ import annotations

import time
from collections.abc import Callable

from gridwright.node_programs.power.supply import Settled
from gridwright.providers.aws.power.cloud import GroupState, PowerCloud
from gridwright.providers.aws.power.configuration import PoweredGroup
from gridwright.providers.aws.power.deciding import (
    End,
    Resize,
    Step,
    Want,
    WantNoMore,
    hopeless,
    steps,
    without_machine,
)


class AwsSupply:
    """See Supply: one Auto Scaling group for each group of nodes."""

    def __init__(
        self, cloud: PowerCloud, groups: tuple[PoweredGroup, ...], now: Callable[[], float] = time.time
    ) -> None:
        self._cloud = cloud
        self._groups = groups
        self._now = now

    def settle(self, wanted: frozenset[str]) -> Settled:
        """Take the steps that are left, and tell of nodes that the cloud has no machine for."""
        failed: dict[str, str] = {}
        done: list[str] = []
        for group in self._groups:
            # The group first: a machine that claims a node meanwhile is its owner by the table.
            state = self._cloud.group(group.name)
            table = self._cloud.table(group.nodes)
            for step in steps(group, wanted, state, table):
                self._carry_out(state, step)
                done.append(f"{group.name}: {step}")
            if without_machine(group, wanted, state, table):
                failed |= hopeless(group, wanted, state, table, self._cloud.starts(state))
        return Settled(failed, tuple(done))

    def _carry_out(self, state: GroupState, step: Step) -> None:
        if isinstance(step, Want):
            self._cloud.want(step.node, self._now())
        elif isinstance(step, WantNoMore):
            self._cloud.want_no_more(step.node)
        elif isinstance(step, End):
            self._cloud.end(step.machine, shrink=step.shrink)
        elif isinstance(step, Resize):
            self._cloud.resize(state, step.desired)
