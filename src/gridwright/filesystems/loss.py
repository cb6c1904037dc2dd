"""What is left of a file system while some of its servers or targets are dead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "unavailable", "lost"]
"""What becomes of files that a dead part holds: nothing; they come back with the part; they are gone."""
Sort = Literal["server", "target", "node"]


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Servers or targets of a file system that are alike: `oss` and 2 are oss1 and oss2."""

    role: str
    sort: Sort
    count: int

    @property
    def names(self) -> list[str]:
        """The name of each, counted from 1."""
        return [f"{self.role}{number}" for number in range(1, self.count + 1)]


@dataclass(frozen=True, slots=True)
class DeadPart:
    """One part that is dead: the `number` of its role, from 1 on."""

    role: str
    number: int


@dataclass(frozen=True, slots=True)
class DegradedRates:
    """What is left of a file system.

    `rate_part` is the part of its rates that is left for what can be reached, from 0 to 1, and of its room,
    where `room_part` does not say otherwise.
    `fate` is what becomes of the files that the dead parts hold, and `files_part` how many of all files
    these are, from 0 to 1. `words` say why, in a sentence.
    """

    rate_part: float
    fate: Fate
    files_part: float
    words: str
    room_part: float | None = None

    @property
    def room(self) -> float:
        """The part of its room that is left."""
        return self.rate_part if self.room_part is None else self.room_part


def affected_files_part(targets: int, stripes: int, dead: int) -> float:
    """The part of all files that have a stripe on one of `dead` targets out of `targets`.

    Each file lies on `stripes` different targets; below 1 means all of them. Every choice of targets is taken
    to be as frequent as any other, as an even allocation makes it: the rest is the hypergeometric chance
    to meet none of the dead.
    """
    each = targets if stripes < 1 else min(stripes, targets)
    choices = math.comb(targets, each)
    return (choices - math.comb(targets - dead, each)) / choices
