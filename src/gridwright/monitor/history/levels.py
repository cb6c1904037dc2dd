"""How finely the past is kept: each level has steps of one width, and blocks of many steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """Steps of one width. A block of it begins at a multiple of its length, in seconds since 1970."""

    step_s: int
    steps: int
    """Of a whole block."""
    kept_s: int
    """Seconds that were recorded and are kept: a clock that was set drops nothing."""

    @property
    def block_s(self) -> int:
        """Seconds of a whole block."""
        return self.step_s * self.steps


LEVELS = (
    HistoryLevel(1, 60, 3600),
    HistoryLevel(10, 60, 2 * 86400),
    HistoryLevel(60, 120, 30 * 86400),
    HistoryLevel(600, 144, 365 * 86400),
)
"""The finest first. A block of one level is made of whole blocks of the one before."""
FINEST = 0
