"""The minutes that may still change, in memory as they are in the file.

A source that is read less often than once a second tells of seconds that have passed, up to a minute: so the
minute before this one is open, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from gridwright.monitor.history.busiest import is_sum
from gridwright.monitor.history.columns import UNKNOWN, BlockColumn, Labels
from gridwright.monitor.history.levels import FINEST, LEVELS
from gridwright.monitor.history.store import OpenSecond
from gridwright.monitor.rates import Key

MINUTE = LEVELS[FINEST].steps
_NOTHING = array("f", [UNKNOWN]) * MINUTE


class OpenMinute:
    """Values of each series by second. A value may stand for seconds before it, too."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.columns: dict[Key, array[float]] = {}

    @property
    def end(self) -> int:
        """The first second behind it."""
        return self.start + MINUTE

    def put(self, slot: int, values: Iterable[tuple[Key, float, int]]) -> None:
        """Note what was measured in a second, and for how many seconds before it that stands, too.

        Seconds outside this minute are left out, so that those of the next one can fill it up. A sum gets
        what is told of its parts later: one of them may stand for more seconds than the others.
        """
        at = slot - self.start
        for key, value, back in values:
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = _NOTHING[:]
            if back == 0:
                if 0 <= at < MINUTE:
                    column[at] = value
                continue
            adds = is_sum(key)
            for each in range(max(0, at - back), min(MINUTE, at + 1)):
                if isnan(column[each]):
                    column[each] = value
                elif adds:
                    column[each] += value

    def by_metric(self) -> Mapping[str, Mapping[Labels, BlockColumn]]:
        """All series that have a value, as columns."""
        found: dict[str, dict[Labels, BlockColumn]] = {}
        for key, values in self.columns.items():
            if not all(map(isnan, values)):
                found.setdefault(key[0], {})[key[1:]] = BlockColumn(values, values, None)
        return found


def open_minutes(seconds: Sequence[OpenSecond]) -> list[OpenMinute]:
    """The minutes that a file has as seconds, the oldest first."""
    starts = sorted({each.slot // MINUTE * MINUTE for each in seconds})
    minutes = [OpenMinute(start) for start in starts]
    for each in seconds:
        for minute in minutes:
            minute.put(each.slot, zip(each.keys, each.values, each.back, strict=True))
    return minutes
