"""Since when something is so, out of the histories of nodes (pure but for what these are asked)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridwright.monitor.frame import Frame
from gridwright.monitor.history.questions import Histories
from gridwright.monitor.libraries import WatchedLibrary

SHORTEST_S = 10.0
"""Width of the first windows that are looked at: less is a moment."""
COARSER = 0.3
"""Windows are so wide a part of how long ago they are. A pause that is much shorter than that is passed over;
to look back over a day, histories are asked some thirty times."""
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


def since_when(
    histories: Histories,
    at_s: float,
    seconds: float,
    libraries: tuple[WatchedLibrary, ...],
    is_so: Callable[[Frame], bool | None],
) -> Beginning:
    """The beginning of the spell that lasts at `at_s`, looked back in windows that leave no time out."""
    reach = histories.reach()
    if reach is None:
        return Beginning(at_s=None, why=NO_HISTORY)

    def was_so(end: float, width: float) -> bool | None:
        return is_so(histories.frame(end, width, libraries))

    shortest = max(SHORTEST_S, seconds)
    end, width = at_s, shortest
    for _ in range(MOST_LOOKS):
        if end - shortest < reach[0]:
            return Beginning(at_s=end, at_least=True, why="histories begin then")
        width = max(shortest, COARSER * (at_s - end))
        found = was_so(end, width)
        if found is None:
            return Beginning(at_s=end, at_least=True, why="of the time before, it cannot be told")
        if not found:
            break
        end -= width
    else:
        return Beginning(at_s=end, at_least=True, why="further back was not looked")
    if end == at_s:
        return Beginning(at_s=None, why="histories do not show it yet")
    low = end - width
    while end - low > max(shortest, FINE * (at_s - end)) and (middle := (low + end) / 2) < end:
        if was_so(end, end - middle):
            end = middle
        else:
            low = middle
    return Beginning(at_s=end, within_s=end - low)
