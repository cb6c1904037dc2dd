"""What one round of looking is asked, and what it tells: messages between the watch and its child process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gridwright.errors import Level

NODE_SILENT, NODE_DOWN = "node-silent", "node-down"
"""Checks of a node as a whole: what else is wrong there is not told while it is silent, or set aside."""
Pace = Literal["each", "all"]
"""Whether a check is done in each round, or only in those that do all checks."""


@dataclass(frozen=True, slots=True, order=True)
class FindingKey:
    """What makes a finding the same one from round to round."""

    name: str
    nodes: tuple[str, ...] = ()
    """One, or those that it is of together, such as a pair; none for what is of no node."""
    target: str = ""
    """What there it is of, such as a library, a mount or a file system."""


@dataclass(frozen=True, slots=True)
class SeenFinding:
    """Something that is wrong now."""

    key: FindingKey
    level: Level
    pace: Pace
    found: str
    expected: str = ""
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class RoundRequest:
    """Look at the grid of a spec, or at this machine alone."""

    spec: str | None
    everything: bool
    """Whether all checks are done, or only cheap ones."""
    known: list[FindingKey]
    """Findings whose state is wanted: whether they were looked at and are not there any more."""
    level: Level = "warning"
    """The least level that is told."""
    on_head: bool = False
    """Whether this machine is the head node of the grid, so that no provider is asked for it."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What a round saw."""

    found: list[SeenFinding]
    clear: list[FindingKey]
    """Of the known ones: looked at, and not there."""
    gone: list[FindingKey] = field(default_factory=list)
    """Of the known ones: of nodes that the grid does not have any more."""
    set_aside: list[str] = field(default_factory=list)
    """Nodes that the scheduler gives no jobs: somebody knows already that they are away."""
    nodes: int = 0
    """How many were looked at."""
    silent: int = 0
    """How many did not answer."""
    everything: bool = False


@dataclass(frozen=True, slots=True)
class RoundRefused:
    """The round could not be done."""

    problem: str
    remedy: str = ""
