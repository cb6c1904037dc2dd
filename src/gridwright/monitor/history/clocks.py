"""How far clocks of nodes are from the one here, as far as answers tell it (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

DRIFT_S = 1e-4
"""What a clock may drift in a second (100 ppm): a measurement is worth less as it ages."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float
    at: float


@dataclass(slots=True)
class HistoryClocks:
    """Of each node, between which bounds its clock is ahead of ours."""

    _known: dict[str, _Bounds] = field(default_factory=dict)

    def note(self, node: str, told: float, asked: float, answered: float) -> None:
        """A node's clock told a time between our asking it and our having its answer."""
        low, high = told - answered, told - asked
        known = self._known.get(node)
        if known is not None:
            drift = DRIFT_S * (answered - known.at)
            both = max(low, known.low - drift), min(high, known.high + drift)
            # Otherwise one of the clocks was set meanwhile, and the last word counts.
            low, high = both if both[0] <= both[1] else (low, high)
        self._known[node] = _Bounds(low, high, answered)

    def ahead(self, node: str, step_s: float = 1.0) -> float:
        """How far a node's clock is ahead, in whole steps; 0 where it may be right."""
        known = self._known.get(node)
        if known is None or known.low <= 0.0 <= known.high:
            return 0.0
        return round((known.low + known.high) / 2 / step_s) * step_s
