"""One figure of a node or of what it serves, with the time of who told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Reading(NamedTuple):
    """One figure: a counter (its metric ends in `_total`) or a gauge; bytes and seconds.

    A tuple, since a node has thousands of them each second.
    """

    metric: str
    labels: tuple[str, ...]
    value: float
    at_s: float
    """When its source told it, by the source's own clock: only differences of one series mean anything."""
    since_s: float | None = None
    """When the counter began, by the same clock, and another value after it began anew; None if unknown."""

    @property
    def key(self) -> tuple[str, ...]:
        """What is the same in all readings of one series."""
        return (self.metric, *self.labels)

    @property
    def is_counter(self) -> bool:
        """Whether only differences of it mean anything."""
        return self.metric.endswith("_total")


@dataclass(frozen=True, slots=True)
class FigureSource:
    """Readings that belong together, and how often they are worth their cost."""

    read: Callable[[], list[Reading]]
    """Raises GridwrightError (status ENVIRONMENT), or OSError, where nothing can be read. May hang."""
    every_s: float = 1.0
    """Not more often than this."""
    most_part: float = 1.0
    """Of one core that reading may take: it is read less often where it takes more."""
