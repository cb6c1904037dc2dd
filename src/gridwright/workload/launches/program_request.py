"""What a guard asks of the process of a test: kept apart, as each launch pays for what it imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gridwright.workload.replays.work import ReplayWork
from gridwright.workload.table_facts import TableFacts


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
