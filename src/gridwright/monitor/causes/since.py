"""Since when something is so, out of the histories of nodes (pure but for what these are asked)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import Histories
from gridwright.monitor.libraries import WatchedLibrary

SHORTEST_S, LONGEST_S = 10.0, 60.0
"""Width of the looks: less is a moment, and over more, good times and bad ones become one mean."""
FARTHER = 1.3
"""Each look goes so many times as far back as the one before. A pause that falls between two looks is passed
over; to look back over a day, histories are asked some forty times."""
FINE = 0.05
"""What is found is told to so small a part of how long ago it is."""
MOST_LOOKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """When something began. Times in seconds since 1970."""

    at_s: float | None
    """None where it is not known."""
    within_s: float = 0.0
    """It began at most so long before."""
    at_least: bool = False
    """Whether it may have begun earlier, as nothing is known of the time before."""
    why: str = ""
    """Why it is not known, or nothing before it."""


NO_HISTORY = "no history of the nodes is kept"
_BEGINS = "histories begin then"


def since_when(
    histories: Histories,
    at_s: float,
    seconds: float,
    libraries: tuple[WatchedLibrary, ...],
    is_so: Callable[[Frame], bool | None],
) -> Beginning:
    """The beginning of the spell that lasts at `at_s`: looks go back ever farther, and then between two."""
    reach = histories.reach()
    if reach is None:
        return Beginning(at_s=None, why=NO_HISTORY)
    shortest = max(SHORTEST_S, seconds)

    def width(end: float) -> float:
        return max(shortest, min(LONGEST_S, FINE * (at_s - end)))

    def was_so(end: float) -> bool | None:
        return is_so(histories.frame(end, width(end), libraries))

    now = was_so(at_s)
    if not now:
        why = "histories cannot tell it" if now is None else "histories do not show it yet"
        return Beginning(at_s=None, why=why)
    earliest = reach[0] + width(reach[0])
    high, low, found = at_s, at_s - shortest, None
    for _ in range(MOST_LOOKS):
        if high <= earliest:
            return Beginning(at_s=reach[0], at_least=True, why=_BEGINS)
        low = max(low, earliest)
        found = was_so(low)
        if not found:
            break
        high, low = low, at_s - FARTHER * max(shortest, at_s - low)
    else:
        return Beginning(at_s=high, at_least=True, why="further back was not looked")
    while high - low > max(shortest, FINE * (at_s - high)):
        middle = (low + high) / 2
        if then := was_so(middle):
            high = middle
        else:
            low, found = middle, then
    if found is None:
        return Beginning(at_s=high, at_least=True, why="of the time before, it cannot be told")
    return Beginning(at_s=high, within_s=high - low + width(high))
