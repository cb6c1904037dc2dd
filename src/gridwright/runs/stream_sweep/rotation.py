"""The launches of each stream of a step: every stream has all of them, and begins elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Launch = TypeVar("_Launch")


def rotations(launches: Sequence[_Launch], streams: int) -> tuple[tuple[_Launch, ...], ...]:
    """The launches of so many streams.

    Work grows as streams do, each stream does the same, and they do not run in step.
    """
    starts = [number * len(launches) // streams % len(launches) for number in range(streams)]
    return tuple((*launches[start:], *launches[:start]) for start in starts)
