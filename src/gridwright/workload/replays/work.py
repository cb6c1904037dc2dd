"""What a replayed launch is to do, as the processes of the workload tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReplayPhase:
    """A part of a launch that does its work side by side; sizes in bytes by library."""

    cpu_s: float
    threads: float
    read_bytes: dict[str, int] = field(default_factory=dict)
    written_bytes: dict[str, int] = field(default_factory=dict)
    cached_bytes: dict[str, int] = field(default_factory=dict)
    """Of `read_bytes`, what the page cache served."""


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """The phases of a launch, one after the other, and the memory that it holds meanwhile."""

    phases: list[ReplayPhase] = field(default_factory=list)
    memory_bytes: int = 0


NOTHING = ReplayWork()
"""Of a launch that replays no profile."""
