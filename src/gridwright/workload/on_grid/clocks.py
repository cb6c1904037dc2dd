"""Finds how far the clocks of nodes are off at least, from the times of launches."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from gridwright.errors import Finding
from gridwright.runs.launch_record import LaunchRecord

_NOTABLE_S = 1.0
"""Below it, a clock says nothing wrong about launches of seconds and minutes."""


@dataclass(slots=True)
class _Bounds:
    """Seconds that a node's clock may be ahead of this one."""

    least: float = -math.inf
    most: float = math.inf


@dataclass(slots=True)
class NodeClocks:
    """Bounds of the offset of each node's clock.

    A launch starts after it was handed in, and ends before its result is seen, both by the
    clock here. With o the offset of the node's clock: started - o >= submitted and ended - o <= seen.
    """

    _bounds: dict[str, _Bounds] = field(default_factory=dict)

    def see(self, launch: LaunchRecord, *, seen: float | None = None) -> None:
        """Take in a launch; times in seconds since 1970."""
        bounds = self._bounds.setdefault(launch.node, _Bounds())
        if launch.ended:
            bounds.least = max(bounds.least, launch.ended - (time.time() if seen is None else seen))
        if launch.started and launch.submitted is not None and not launch.restarts:
            bounds.most = min(bounds.most, launch.started - launch.submitted)

    def findings(self) -> list[Finding]:
        """The nodes whose clock is off by a second or more."""
        found = []
        for node, bounds in sorted(self._bounds.items()):
            ahead = bounds.least > _NOTABLE_S
            if not ahead and bounds.most >= -_NOTABLE_S:
                continue
            off = bounds.least if ahead else -bounds.most
            text = (
                f"the clock of {node} is at least {off:.1f} s {'ahead of' if ahead else 'behind'} the one "
                "here: what the report shows over time, and the launches at once, are off by that"
            )
            found.append(
                Finding("warning", "workload-clock", text, f"see why {node} has no time service (chrony)")
            )
        return found
