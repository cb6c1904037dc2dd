"""Finds how far the clocks of nodes are off at least, from the times of launches."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import Finding

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

    def see(self, record: dict[str, Any], *, submitted: float | None, seen: float | None = None) -> None:
        """Take in a launch; times in seconds since 1970."""
        bounds = self._bounds.setdefault(record["node"], _Bounds())
        if record["ended"]:
            bounds.least = max(bounds.least, record["ended"] - (time.time() if seen is None else seen))
        if record["started"] and submitted is not None and not record.get("restarts"):
            bounds.most = min(bounds.most, record["started"] - submitted)

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
