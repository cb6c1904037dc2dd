"""Makes findings of what pairs of nodes saw on file systems that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Trial = Literal["seen", "read", "rename", "flock", "fcntl", "append"]
"""What a pair tries: that both see the same directory; that what one wrote and closed the other reads; that a
new file under an old name is seen; that locks of one keep out the other; that both can append to one file."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial of a pair on a file system: None where it came out right, else what was seen instead."""

    filesystem: str
    nodes: tuple[str, str]
    trial: Trial
    wrong: str | None


@dataclass(frozen=True, slots=True)
class PairFindings:
    """All trials, and pairs whose trials could not be ended, with the reason."""

    tried: tuple[Tried, ...] = ()
    untried: Mapping[tuple[str, str], str] = field(default_factory=dict)
    clock_offsets_s: Mapping[str, float] = field(default_factory=dict)
    """By node: how far its clock is from that of the machine which asked, beyond the time of the question."""
