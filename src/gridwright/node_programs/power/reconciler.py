"""One round after the other: ask Slurm, have the supply follow, tell Slurm what cannot be had."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.node_programs.power.deciding import orders
from gridwright.node_programs.power.nodes import PowerStates
from gridwright.node_programs.power.supply import Supply, SupplyError

LOOK_S = 1.0
"""How often the log of requests is looked at."""


@dataclass
class PowerReconciler:
    """Powers the nodes of a grid on and off until they are as its Slurm wants them."""

    slurm: PowerStates
    supply: Supply
    nodes: Sequence[str]
    """All nodes of groups that are powered."""
    always_on: frozenset[str]
    again_s: float
    """After how long a node that could not be had is tried again."""
    say: Callable[[str], None]
    now: Callable[[], float] = time.time

    def round(self) -> bool:
        """One round; False where Slurm or the supply did not answer, and nothing was told to the other."""
        nodes = self.slurm.read(self.nodes)
        if nodes is None:
            self.say("Slurm does not answer: nothing is changed")
            return False
        # A node that Slurm does not know has no jobs, and needs no machine.
        desired = frozenset(name for name, node in nodes.items() if node.is_desired) | self.always_on
        try:
            settled = self.supply.settle(desired)
        except SupplyError as error:
            self.say(f"{error}: nothing is changed")
            return False
        for done in settled.done:
            self.say(done)
        # What Slurm wants by now counts, and not what it wanted before the supply took its time.
        nodes = self.slurm.read(self.nodes) if settled.failed else nodes
        for order in orders(nodes or {}, self.always_on, settled.failed, self.now(), self.again_s):
            updated = self.slurm.update(order.node, order.state, order.reason)
            self.say(f"{order}" if updated else f"{order}: Slurm did not take it")
        return True


class RequestLog:
    """Watches the log of Slurm's resume and suspend programs for changes."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def has_changed(self) -> bool:
        """Whether something was written since the last call."""
        try:
            status = self._path().stat()
            seen = (status.st_mtime_ns, status.st_size)
        except OSError:
            return False
        changed = seen != self._seen
        self._seen = seen
        return changed


def reconcile(
    reconciler: PowerReconciler, requests: RequestLog, every_s: float, ended: Callable[[float], bool]
) -> None:
    """Run rounds until `ended`, which waits so many seconds, says so; one at once when Slurm asks."""
    due = 0.0
    while not ended(LOOK_S):
        if requests.has_changed() or time.monotonic() >= due:
            reconciler.round()
            due = time.monotonic() + every_s
