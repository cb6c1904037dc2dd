"""What a guard asks of the process of a test: kept apart, as each launch pays for what it imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the manifest of the data set says of a table. `bytes_` is the size of its file."""

    path: Path
    rows: int
    bytes_: int
    checksum: str
    expected: Mapping[str, Any]
    """Figures worked out when it was made, by code that no test shares."""


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


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """Run a test within its limits."""

    test: str
    work: Path
    util: Path
    tables: dict[str, TableFacts]
    cores: int
    memory_bytes: int
    settings: dict[str, int]
    replay: ReplayWork
    block_bytes: int
    """What a call reads or writes of a file."""
