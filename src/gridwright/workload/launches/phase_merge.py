"""Merges many short intervals of a launch into a few phases: neighbours that do the same become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise

from gridwright.runs.launch_record import LaunchPhase

FIELDS = tuple(each.name for each in fields(LaunchPhase) if each.name != "more")
"""What an interval is: how long, and what was used and moved in it, in this order."""
Interval = list[float]

_WEIGHED = tuple(
    (FIELDS.index(name), 1.0 if name == "cpu_s" else 1e-8)
    for name in FIELDS
    if name == "cpu_s" or (name.endswith("_bytes") and name != "device_read_bytes")
)
"""What counts as doing: CPU seconds, and bytes at 100 MB to the second, for a core that is served
100 MB/s moves that much while it computes for as long."""


def weight(interval: Sequence[float]) -> float:
    """How much an interval does, in seconds of computing and of moving bytes together."""
    return sum(interval[place] * factor for place, factor in _WEIGHED)


def misplaced(one: Sequence[float], other: Sequence[float]) -> float:
    """How much of what two neighbours do would no longer be in its order if they were one, in seconds.

    Merged, each does every kind of work in proportion to the whole. The figure is the sum over
    the kinds of |a w(b) - b w(a)| / (w(a) + w(b)): zero for the same mix, up to twice the smaller
    one's weight if they have nothing in common.
    """
    first, second = weight(one), weight(other)
    if first + second <= 0.0:
        return 0.0
    apart = sum(abs(one[place] * second - other[place] * first) * factor for place, factor in _WEIGHED)
    return apart / (first + second)


def merged(intervals: Sequence[Interval], *, most: int, share: float = 0.0) -> list[Interval]:
    """Merge neighbours, the most alike first, until at most `most` (>= 1) are left.

    Goes on while less than `share` of the weight of all would be misplaced by the next merge.
    Sums over all intervals stay what they were, and so does their order.
    """
    found = [list(each) for each in intervals]
    costs = [misplaced(one, other) for one, other in pairwise(found)]
    allowed = share * sum(map(weight, found))
    while costs:
        place = min(range(len(costs)), key=costs.__getitem__)
        if len(found) <= most and costs[place] > allowed:
            break
        gone = found.pop(place + 1)
        found[place] = [here + there for here, there in zip(found[place], gone, strict=True)]
        del costs[place]
        for beside in (place - 1, place):
            if 0 <= beside < len(costs):
                costs[beside] = misplaced(found[beside], found[beside + 1])
    return found
