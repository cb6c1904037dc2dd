"""Watches the samples of a phase and says when its rate is steady; see `gridwright.iotest.steady`."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.iotest import steady
from gridwright.iotest.engine import Sample
from gridwright.iotest.falling import rate_series
from gridwright.runs.phase_record import Steady


class Steadiness:
    """Ends a phase of at most `longest_s` when its rate is steady; None for one that ends otherwise."""

    def __init__(self, longest_s: float | None) -> None:
        self._longest = longest_s
        self._next = 0.0
        self._used = 0

    def reached(self, history: Sequence[Sample], *, syncing: bool) -> bool:
        """Look at all samples so far, and say whether the phase may end."""
        if self._longest is None or not history:
            return False
        elapsed = history[-1].elapsed_s
        # The samples of the closing fsync are no rate.
        if not syncing and elapsed <= self._longest:
            self._used = len(history)
        if elapsed < self._next:
            return False
        self._next = elapsed + max(5 * history[0].elapsed_s, self._longest / 200)
        return steady.may_end(_levels(history[: self._used]), self._longest)

    def result(self, history: Sequence[Sample]) -> Steady | None:
        """What was found, once the phase has ended."""
        if self._longest is None:
            return None
        return steady.judge(_levels(history[: self._used]), self._longest)


def _levels(history: Sequence[Sample]) -> list[steady.Level]:
    return steady.levels(*rate_series(history))
